//! A middlebox server (`hnlb nf`) with two network functions on the link between
//! clients and servers; functions are killed, stopped and started again under load.

mod attach;
mod phase;
mod server;
mod wiring;

use std::path::{Path, PathBuf};

pub use self::attach::Attach;
use crate::progress::Progress;
use crate::{Lab, LabError, LabOptions, Stop};

/// How long, and with what.
#[derive(Debug, Clone)]
pub struct Options {
    /// Seconds of each phase.
    pub seconds: u64,
    /// The program of the functions; `None`: HNLB's own forwarder.
    pub function: Option<PathBuf>,
    /// By what they are attached.
    pub attach: Attach,
    /// A JSON object a phase on stdout instead of the table.
    pub json: bool,
}

/// Runs every phase with HNLB's program at `binary`. True if no request failed, no
/// byte was wrong, frames were lost only by functions that died, and the counters add
/// up.
///
/// # Errors
/// If the lab cannot be set up, the server doesn't start or ends, or the stop is
/// requested. The lab is gone in any case.
pub fn run(binary: &Path, stop: &Stop, options: &Options) -> Result<bool, LabError> {
    let phases = phase::of(options.attach);
    let progress = Progress::new("nf", 1 + phases.len());
    progress.step("setting up the lab");
    let mut lab = Lab::up(LabOptions { stop: stop.clone(), ..LabOptions::default() })?;
    wiring::make(&lab)?;
    let mut server = server::Server::start(&mut lab, binary, options)?;
    let mut failures = Vec::new();
    if !options.json {
        println!("{}", phase::HEAD);
    }
    for phase in phases.iter().copied() {
        progress.step(phase.name());
        let seen = phase.run(&mut lab, &mut server, options.seconds)?;
        if options.json {
            println!("{}", serde_json::json!(seen));
        } else {
            println!("{seen}");
        }
        failures.extend(seen.failures());
    }
    let report = server.end(&mut lab)?;
    if !options.json {
        println!("\n{report}");
    }
    lab.down()?;
    progress.done();
    for failure in &failures {
        eprintln!("nf: FAILED  {failure}");
    }
    Ok(failures.is_empty())
}
