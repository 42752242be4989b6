//! `hnlb bench xdp`: the time that the kernel takes for a packet.
use std::process::ExitCode;

use serde_json::json;
use xdp::{Bench, Course, System};

use crate::cli::BenchXdpArgs;
use crate::{CommandResult, output};

const CONNECTIONS: [u32; 4] = [1, 8000, 100_000, 1_000_000];
/// Runs of each program, of which the fastest counts: others share the processor.
const RUNS: usize = 7;

pub(crate) fn run(args: &BenchXdpArgs) -> CommandResult {
    let packets = if args.quick { 10_000 } else { 2_000_000 };
    if !args.json {
        output::print("family  connections  limit, ns  xdp, ns  difference, ns\n")?;
    }
    for (family, v6) in [(4, false), (6, true)] {
        for connections in CONNECTIONS {
            let seed = u64::from_ne_bytes(seed()?);
            let bench = Bench::load(Course { connections, v6 }, seed)?;
            let limit = fastest(&bench, System::Limit, packets)?;
            let xdp = fastest(&bench, System::Xdp, packets)?;
            output::print(&rows(args.json, family, connections, limit, xdp))?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn seed() -> Result<[u8; 8], getrandom::Error> {
    let mut bytes = [0; 8];
    getrandom::fill(&mut bytes)?;
    Ok(bytes)
}

/// The mean nanoseconds per packet of the fastest run. The kernel gives whole ones.
fn fastest(bench: &Bench, system: System, packets: u32) -> Result<u128, xdp::Error> {
    let mut fastest = u128::MAX;
    for _ in 0..RUNS {
        fastest = fastest.min(bench.time(system, packets)?.as_nanos());
    }
    Ok(fastest)
}

fn rows(as_json: bool, family: u8, connections: u32, limit: u128, xdp: u128) -> String {
    if !as_json {
        let difference = xdp.saturating_sub(limit);
        return format!("IPv{family}  {connections:>13}  {limit:>9}  {xdp:>7}  {difference:>14}\n");
    }
    let row = |system, time: u128| {
        let row = json!({"system": system, "connections": connections, "family": family,
            "ns_per_packet": time as u64});
        format!("{row}\n")
    };
    row("limit", limit) + &row("xdp", xdp)
}
