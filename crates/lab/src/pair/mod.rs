//! A pair of load balancers, and routers that use both (BGP, BIRD) or one of them (VRRP,
//! keepalived): one is drained, killed, started again and ended under load.

mod member;
mod network;
mod run;

use std::path::Path;

use clap::ValueEnum;

use crate::progress::Progress;
use crate::{Lab, LabError, LabOptions, Stop, host};

/// How the rest of the network learns which load balancer to use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum AnnouncedBy {
    /// Both announce the VIPs by BGP, and the router spreads packets over them (ECMP).
    Bgp,
    /// One has the gateways' addresses by VRRP, and the other takes them over.
    Vrrp,
}

impl AnnouncedBy {
    const fn name(self) -> &'static str {
        match self {
            Self::Bgp => "bgp",
            Self::Vrrp => "vrrp",
        }
    }

    /// The program that announces, and its Debian package.
    const fn program(self) -> (&'static str, &'static str) {
        match self {
            Self::Bgp => ("bird", "bird2"),
            Self::Vrrp => ("keepalived", "keepalived"),
        }
    }
}

/// Runs two of HNLB's program at `binary` for each of `ways`. Prints progress to stderr and
/// a line for each change to stdout. True if nothing failed.
///
/// # Errors
/// If a lab cannot be set up, HNLB doesn't start, or the stop is requested. The lab is
/// gone in any case.
pub(crate) fn run(binary: &Path, stop: &Stop, ways: &[AnnouncedBy]) -> Result<bool, LabError> {
    for (program, package) in ways.iter().map(|way| way.program()) {
        if !host::has(program) {
            return Err(LabError::Unavailable(format!(
                "{program} not found; `make deps` installs it (Debian: apt-get install {package})"
            )));
        }
    }
    let progress = Progress::new("pair", ways.len() * run::STEPS);
    let mut failures = Vec::new();
    for &way in ways {
        let mut lab = Lab::up(LabOptions { stop: stop.clone(), ..LabOptions::default() })?;
        failures.extend(run::run(&mut lab, binary, way, &progress)?);
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
