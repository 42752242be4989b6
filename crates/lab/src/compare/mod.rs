//! HNLB against what a user would take otherwise: nftables DNAT in the kernel
//! and HAProxy in TCP mode, in the same lab with the same clients, backends
//! and load; IPv4, HTTP over long and over short connections.
//!
//! Requests a second say little here, where clients, balancer and backends
//! share a few processors; the processor time of the balancer is what counts.
//! It cannot be measured the same way for all three ([`Measured`] says how
//! each is, the table prints the weaknesses with the figures).

mod contender;
mod cpu;
mod measured;
mod table;

use std::path::Path;

pub use contender::Contender;
pub(crate) use cpu::{process_ns, process_times_ns, threads_ns, threads_times_ns};
pub use measured::Measured;
pub(crate) use measured::busy_share;

use crate::load::Connections;
use crate::{Lab, LabError, LabOptions, Stop, host};

/// How the comparison is run.
#[derive(Debug, Clone)]
pub struct Options {
    /// The balancers that are compared; [`Contender::ALL`] in a whole comparison.
    pub contenders: Vec<Contender>,
    /// Seconds of each load.
    pub seconds: u64,
    /// How often each contender is measured; rounds go through all of them, so
    /// that drift hits all alike.
    pub rounds: u32,
    /// A JSON object a measurement on stdout instead of the table.
    pub json: bool,
}

/// Runs the comparison with HNLB's program at `binary`; the table, or JSON,
/// goes to stdout, progress to stderr. True if no request failed.
///
/// # Errors
/// If the lab cannot be set up, `nft` or `haproxy` is missing, a balancer
/// doesn't start, or the stop is requested. The lab is gone in any case.
pub fn run(binary: &Path, stop: &Stop, options: &Options) -> Result<bool, LabError> {
    for (program, package) in [("nft", "nftables"), ("haproxy", "haproxy")] {
        if !host::has(program) {
            return Err(LabError::Unavailable(format!(
                "{program} not found; `make deps` installs it (Debian: apt-get install {package})"
            )));
        }
    }
    let mut lab = Lab::up(LabOptions { stop: stop.clone(), ..LabOptions::default() })?;
    let mut all = Vec::new();
    for round in 0..options.rounds {
        for &contender in &options.contenders {
            eprintln!("compare: round {} of {}: {}", round + 1, options.rounds, contender.name());
            let running = contender.start(&mut lab, binary)?;
            for use_ in [Connections::KeepAlive, Connections::Short] {
                let measured = measured::measure(&mut lab, &running, use_, round, options.seconds)?;
                if options.json {
                    println!("{}", measured.json());
                }
                all.push(measured);
            }
            running.stop(&mut lab)?;
        }
    }
    lab.down()?;
    if !options.json {
        print!("{}", table::render(&all));
    }
    let failed: u64 = all.iter().map(|measured| measured.failed).sum();
    if failed > 0 {
        eprintln!("compare: {failed} requests failed");
    }
    Ok(failed == 0)
}
