//! `hnlb bench`: measurements.
use std::process::ExitCode;

use bench::table::{self, Options};
use paper::{Figure, Testbed};
use report::{Machine, Report, Results, Row};

use super::{bench_admission, bench_xenoflow};
use crate::cli::{BenchCommand, BenchFigureArgs, BenchTableArgs};
use crate::{CommandError, CommandResult, output};

pub(crate) fn run(command: BenchCommand) -> CommandResult {
    match command {
        BenchCommand::Table(args) => table(args),
        BenchCommand::Admission(args) => bench_admission::run(&args),
        BenchCommand::Xenoflow(args) => bench_xenoflow::run(&args),
        BenchCommand::Fig4(args) => figures(&[Figure::Fig4], &args),
        BenchCommand::Fig5(args) => figures(&[Figure::Fig5], &args),
        BenchCommand::Fig6(args) => figures(&[Figure::Fig6], &args),
        BenchCommand::Fig7(args) => figures(&[Figure::Fig7], &args),
        BenchCommand::Fig8(args) => figures(&[Figure::Fig8], &args),
        BenchCommand::Paper(args) => figures(&Figure::ALL, &args),
    }
}

fn table(args: BenchTableArgs) -> CommandResult {
    let BenchTableArgs { sizes, threads, quick, out, json } = args;
    let outcome = table::run(&Options { sizes, threads, quick, out })?;
    if json {
        for row in &outcome.rows {
            output::print(&(serde_json::to_string(row)? + "\n"))?;
        }
    } else {
        output::print(&outcome.page())?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Figures of the paper, measured and reported.
fn figures(figures: &[Figure], args: &BenchFigureArgs) -> CommandResult {
    let mut testbed = Testbed::start()?;
    let mut rows = Vec::new();
    for figure in figures {
        rows.extend(measure(&mut testbed, *figure, args)?);
    }
    if args.json {
        for row in &rows {
            output::print(&(serde_json::to_string(row)? + "\n"))?;
        }
    } else {
        output::print(&page(&rows, args.alone))?;
    }
    if let Some(dir) = &args.out {
        let settings = vec![
            ("Repetitions".to_owned(), args.repetitions.to_string()),
            ("Memory".to_owned(), testbed.memory()),
            ("One core for both".to_owned(), args.alone.to_string()),
        ];
        for file in Report::new(Machine::this(&dpdk::eal::version()), settings, rows).write(dir)? {
            eprintln!("{}", file.display());
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn measure(
    testbed: &mut Testbed,
    figure: Figure,
    args: &BenchFigureArgs,
) -> Result<Vec<Row>, CommandError> {
    let bar = indicatif::ProgressBar::new(0).with_style(indicatif::ProgressStyle::with_template(
        "{msg} {bar:40} {pos}/{len} points, {eta} left",
    )?);
    bar.set_message(format!("figure {}", figure.number()));
    let told = bar.clone();
    let options = paper::Options {
        quick: args.quick,
        repetitions: args.repetitions,
        alone: args.alone,
        systems: match args.systems.as_slice() {
            [] => paper::System::ALL.to_vec(),
            some => some.to_vec(),
        },
        connections: args.connections.clone(),
        progress: Some(std::sync::Arc::new(move |done, of| {
            told.set_length(of as u64);
            told.set_position(done as u64);
        })),
        ..paper::Options::default()
    };
    let measured = testbed.run(figure, &options)?;
    bar.finish_and_clear();
    measured.iter().map(|row| Row::of(row).map_err(CommandError::from)).collect()
}

/// Medians over the repetitions, for people.
fn page(rows: &[Row], alone: bool) -> String {
    let cores = if alone {
        "by turns with the load balancer on one core"
    } else {
        "on one core, the load balancer on the other"
    };
    let mut page = format!(
        "The NIC and the traffic source run {cores}; only the load balancer is measured.\n"
    );
    page += &format!(
        "{:>3} {:<12} {:>11} {:>6} {:<9} {:>9} {:>8} {:>8} {:>6} {:>6} {:>6}\n",
        "fig",
        "system",
        "connections",
        "bytes",
        "traffic",
        "offered",
        "Mpps",
        "ns",
        "util",
        "util+",
        "loss"
    );
    for point in Results::of(rows.to_vec()).points() {
        let offered =
            point.offered_mpps.map_or_else(|| "-".to_owned(), |rate| format!("{rate:.2}"));
        page += &format!(
            "{:>3} {:<12} {:>11} {:>6} {:<9} {:>9} {:>8.2} {:>8.1} {:>6.2} {:>6.2} {:>6.3}\n",
            point.figure,
            point.system,
            point.connections,
            point.packet_size,
            point.traffic,
            offered,
            point.mpps.median,
            point.ns_per_packet.median,
            point.util.median,
            point.util_plus.median,
            point.loss.median
        );
    }
    page
}
