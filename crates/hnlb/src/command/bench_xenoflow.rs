//! `hnlb bench xenoflow`: the figures of the XenoFlow paper.
use std::process::ExitCode;

use lab::Stop;
use lab::latency::{RoundTrips, System, measure};
use measure::report::{Machine, XenoflowRow, deviation, median, write_xenoflow, xenoflow_text};
use measure::xenoflow::{Options, run as model};

use super::bench::counted;
use crate::cli::BenchXenoflowArgs;
use crate::{CommandError, CommandResult, output};

/// Round trips in all, as in the paper (section 5.4), in three repetitions.
const ROUND_TRIPS: u32 = 2700;
const REPETITIONS: u32 = 3;

pub(crate) fn run(args: &BenchXenoflowArgs) -> CommandResult {
    let mut rows = model(Options::new(args.quick), &mut counted()?)?;
    if !args.without_lab {
        match lab::unavailable() {
            Some(why) => eprintln!("hnlb: figure 7 is left out: {why}"),
            None => rows.extend(latencies(args.quick)?),
        }
    }
    rows.sort_by_key(|row| row.figure);
    if args.json {
        for row in &rows {
            output::print(&(serde_json::to_string(row)? + "\n"))?;
        }
    } else {
        output::print(&xenoflow_text(&rows))?;
    }
    if let Some(dir) = &args.out {
        let machine = Machine::this(&dpdk::eal::version());
        for file in write_xenoflow(dir, &machine, &rows)? {
            eprintln!("{}", file.display());
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Figure 7, in the lab.
fn latencies(quick: bool) -> Result<Vec<XenoflowRow>, CommandError> {
    let (repetitions, count) =
        if quick { (1, 200) } else { (REPETITIONS, ROUND_TRIPS / REPETITIONS) };
    let stop = Stop::on_signals()?;
    let trips = measure(&std::env::current_exe()?, &stop, repetitions, count)?;
    let of = |system: System| trips.iter().filter(move |trips| trips.system == system);
    let all = |system| of(system).flat_map(|trips| &trips.ns).map(|ns| *ns as f64 / 1e3);
    let base = median(&all(System::Baseline).collect::<Vec<_>>());
    let mut rows: Vec<XenoflowRow> = trips.iter().map(row).collect();
    rows.push(XenoflowRow {
        source: "paper".to_owned(),
        x_unit: "median".to_owned(),
        unit: "µs".to_owned(),
        paper: Some(102.0),
        note: "bind9 on Ubuntu 24.04, local zone file, without a load balancer; not measured here"
            .to_owned(),
        ..XenoflowRow::lab(7, "bind9 (paper)")
    });
    for (system, paper) in
        [(System::Xdp, Some(9.3)), (System::Hardware, Some(5.2)), (System::Software, None)]
    {
        let times: Vec<f64> = all(system).collect();
        let Some((middle, base)) = median(&times).zip(base) else { continue };
        rows.push(XenoflowRow {
            value: Some(middle - base),
            deviation: deviation(&times),
            x_unit: "all repetitions".to_owned(),
            unit: "µs added to the baseline".to_owned(),
            paper,
            samples: times.len() as u64,
            note: "the paper's is of a card and of an XDP program on another machine".to_owned(),
            ..XenoflowRow::lab(7, &format!("{} added", system.name()))
        });
    }
    Ok(rows)
}

fn row(trips: &RoundTrips) -> XenoflowRow {
    let times: Vec<f64> = trips.ns.iter().map(|ns| *ns as f64 / 1e3).collect();
    XenoflowRow {
        x: f64::from(trips.repetition),
        x_unit: "repetition".to_owned(),
        value: median(&times),
        deviation: deviation(&times),
        unit: "µs".to_owned(),
        samples: times.len() as u64,
        note: format!("{}, {} lost", trips.how, trips.lost),
        ..XenoflowRow::lab(7, trips.system.name())
    }
}
