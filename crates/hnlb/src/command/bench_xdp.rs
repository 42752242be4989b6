//! `hnlb bench xdp`: the time that the kernel takes for a packet.
use std::process::ExitCode;

use measure::Worker;
use serde_json::json;
use xdp::{Bench, Course, System};

use crate::cli::BenchXdpArgs;
use crate::{CommandError, CommandResult, output};

const CONNECTIONS: [u32; 4] = [1, 8000, 100_000, 1_000_000];
/// Runs of each program, of which the fastest counts: others share the processor.
const RUNS: usize = 7;

/// Nanoseconds for a packet, and insertions a second.
struct Row {
    family: u8,
    connections: u32,
    limit: f64,
    xdp: f64,
    worker: f64,
    insertions: f64,
}

pub(crate) fn run(args: &BenchXdpArgs) -> CommandResult {
    let packets = if args.quick { 10_000 } else { 2_000_000 };
    if !args.json {
        output::print(HEAD)?;
    }
    for family in [4, 6] {
        for connections in CONNECTIONS {
            let row = measure(family, connections, packets)?;
            output::print(&if args.json { row.json() } else { row.line() })?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn measure(family: u8, connections: u32, packets: u32) -> Result<Row, CommandError> {
    let course = Course { connections, v6: family == 6 };
    let bench = Bench::load(course, u64::from_ne_bytes(seed()?))?;
    let filled_in = bench.filled_in().as_secs_f64();
    let limit = fastest(&bench, System::Limit, packets)?;
    let xdp = fastest(&bench, System::Xdp, packets)?;
    drop(bench);
    let mut software = Worker::build(connections, course.v6)?;
    let mut worker = f64::INFINITY;
    for _ in 0..RUNS {
        worker = worker.min(software.nanoseconds(packets, course.stride())?);
    }
    let insertions = f64::from(connections) / filled_in;
    Ok(Row { family, connections, limit, xdp, worker, insertions })
}

fn seed() -> Result<[u8; 8], getrandom::Error> {
    let mut bytes = [0; 8];
    getrandom::fill(&mut bytes)?;
    Ok(bytes)
}

/// The mean nanoseconds per packet of the fastest run. The kernel gives whole ones.
fn fastest(bench: &Bench, system: System, packets: u32) -> Result<f64, xdp::Error> {
    let mut fastest = f64::INFINITY;
    for _ in 0..RUNS {
        fastest = fastest.min(bench.time(system, packets)?.as_nanos() as f64);
    }
    Ok(fastest)
}

const HEAD: &str = "\
family  connections  limit, ns  xdp, ns  xdp - limit, ns  worker, ns  insertions, M/s
";

impl Row {
    fn line(&self) -> String {
        let Self { family, connections, limit, xdp, worker, insertions } = self;
        let (more, insertions) = (xdp - limit, insertions / 1e6);
        format!(
            "IPv{family}  {connections:>13}  {limit:>9.0}  {xdp:>7.0}  {more:>15.0}  {worker:>10.1}  {insertions:>15.1}\n"
        )
    }

    /// An object a line: the limit, the program, the worker.
    fn json(&self) -> String {
        let Self { family, connections, limit, xdp, worker, .. } = self;
        let systems = [("limit", limit), ("xdp", xdp), ("worker", worker)];
        let rows = systems.map(|(system, time)| {
            let row = json!({"system": system, "connections": connections, "family": family,
                "ns_per_packet": (time * 10.0).round() / 10.0});
            format!("{row}\n")
        });
        rows.concat()
    }
}
