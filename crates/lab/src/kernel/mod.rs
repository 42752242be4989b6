//! The exception path with real programs: HNLB's kernel serves and asks over the port
//! that HNLB drives, backends are checked over it, and it routes their own traffic.

mod blast;
mod run;

use std::path::Path;

use flow::EncodingChoice;

pub(crate) use blast::blast;

use crate::config::LabRun;
use crate::progress::Progress;
use crate::{Lab, LabError, LabOptions, Stop};

/// Runs HNLB's program at `binary` with each encoding; prints progress to stderr and a
/// line for each encoding to stdout. True if nothing failed.
///
/// # Errors
/// If a lab cannot be set up, HNLB doesn't start, or the stop is requested. The lab is
/// gone in any case.
pub(crate) fn run(
    binary: &Path,
    stop: &Stop,
    encodings: &[EncodingChoice],
) -> Result<bool, LabError> {
    let progress = Progress::new("kernel", encodings.len() * run::STEPS);
    let mut failures = Vec::new();
    for &encoding in encodings {
        let mut lab = Lab::up(LabOptions { stop: stop.clone(), ..LabOptions::default() })?;
        let how = LabRun { kernel: true, ..LabRun::emulated(encoding) };
        failures.extend(run::run(&mut lab, binary, &how, &progress)?);
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
