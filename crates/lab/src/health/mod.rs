//! Health checks with real servers: backends are killed, stopped, cut off and
//! answer 500 or a byte a second; without a probe, one only resets and one is silent. Once
//! HNLB knows, no request may fail, and each backend must serve again when it is well. At
//! last the process of the control API hangs and is killed under load.

mod control;
mod fault;
mod link;
mod run;

use std::path::Path;
use std::time::Duration;

use flow::{EncodingChoice, Mode};

use crate::config::LabRun;
use crate::progress::Progress;
use crate::{Lab, LabError, LabOptions, Stop};

/// Runs HNLB's program at `binary` in `mode` with each encoding under the faults;
/// prints progress to stderr and a line for each fault to stdout. True if nothing
/// failed.
///
/// # Errors
/// If a lab cannot be set up, HNLB doesn't start, a state isn't found in time, or the
/// stop is requested. The lab is gone in any case.
pub(crate) fn run(
    binary: &Path,
    stop: &Stop,
    (mode, hung): (Mode, Duration),
    encodings: &[EncodingChoice],
) -> Result<bool, LabError> {
    // In other modes answers don't pass HNLB.
    let signals = !mode.is_one_way();
    let steps = run::STEPS + if signals { run::PASSIVE_STEPS } else { 0 };
    let progress = Progress::new("health", encodings.len() * steps);
    let mut failures = Vec::new();
    for &encoding in encodings {
        let mut lab = Lab::up(LabOptions { stop: stop.clone(), ..LabOptions::default() })?;
        link::make(&lab)?;
        let how = LabRun { mode, ..LabRun::emulated(encoding) };
        failures.extend(run::run(&mut lab, binary, &how, (hung, &progress))?);
        if signals {
            failures.extend(run::run_passive(&mut lab, binary, &how, &progress)?);
        }
        lab.down()?;
    }
    progress.done();
    for failure in &failures {
        println!("FAILED  {failure}");
    }
    if failures.is_empty() {
        println!("nothing failed");
    }
    Ok(failures.is_empty())
}
