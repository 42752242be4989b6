//! Reload under load: random changes of the configuration while clients send
//! requests over long and short connections, download a file and ask DNS. No
//! request may fail and no connection may break.

mod model;
mod run;
mod table;
mod traffic;

use std::path::Path;

use flow::Mode;

use crate::column::Column;
use crate::progress::Progress;
use crate::{Lab, LabError, LabOptions, Stop};

/// What is to be reloaded, and how often.
#[derive(Debug, Clone)]
pub struct Options {
    /// Reloads of each run.
    pub reloads: u32,
    /// Where the random changes begin; the same seed makes the same changes.
    pub seed: u64,
    /// The modes; each is run with each of the encodings.
    pub modes: Vec<Mode>,
    /// The encodings.
    pub encodings: Vec<Column>,
}

/// Runs HNLB's program at `binary` in each mode with each encoding under load
/// and reloads; prints progress to stderr and a table to stdout. True if nothing
/// failed.
///
/// # Errors
/// If a lab cannot be set up, HNLB doesn't start or refuses a change, or the
/// stop is requested. The lab is gone in any case.
pub fn run(binary: &Path, stop: &Stop, options: &Options) -> Result<bool, LabError> {
    let Options { reloads, seed, modes, encodings } = options;
    println!("seed {seed}: `hnlb lab reload --seed {seed}` makes the same changes again");
    let runs = modes.len() * encodings.len();
    let progress = Progress::new("reload", runs * (run::STEPS + *reloads as usize));
    let mut reports = Vec::new();
    for &mode in modes {
        let mut lab = Lab::up(LabOptions { stop: stop.clone(), ..LabOptions::default() })?;
        for &encoding in encodings {
            let seed = seed.wrapping_add(reports.len() as u64);
            reports.push(run::run(
                &mut lab,
                binary,
                (mode, encoding),
                (*reloads, seed),
                &progress,
            )?);
        }
        lab.down()?;
    }
    progress.done();
    print!("{}", table::render(&reports));
    let failures: Vec<String> = reports.iter().flat_map(run::Report::failures).collect();
    for failure in &failures {
        println!("FAILED  {failure}");
    }
    if failures.is_empty() {
        println!("nothing failed");
    }
    Ok(failures.is_empty())
}
