//! XenoFlow's case: DNS servers behind an emulated BlueField-3 that does all
//! the balancing, clients from many addresses, and a backend that is drained
//! while queries come.
mod run;
mod toml;

use std::path::Path;

pub(crate) use self::toml::stateless;
use crate::{Lab, LabError, LabOptions, Stop};

/// Runs it with HNLB's program at `binary`, with `xdp` with the kernel as the NIC, and prints what it saw. True if
/// every query was answered, and the shares are those of the weights.
///
/// # Errors
/// If the lab cannot be set up, HNLB doesn't start, or the stop is requested.
/// The lab is gone in any case.
pub fn run(binary: &Path, stop: &Stop, xdp: bool) -> Result<bool, LabError> {
    eprintln!("dns: setting up the lab");
    let mut lab = Lab::up(LabOptions { stop: stop.clone(), ..LabOptions::default() })?;
    let report = run::run(&mut lab, binary, xdp)?;
    lab.down()?;
    print!("{}", report.text);
    for failure in &report.failures {
        println!("FAILED  {failure}");
    }
    if report.failures.is_empty() {
        println!("nothing failed");
    }
    Ok(report.failures.is_empty())
}
