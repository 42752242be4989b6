//! `hnlb bench`: measurements.
mod page;

use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};
use lab::{Stop, compare};
use measure::report::{Findings, Machine, Report};
use measure::table::{self, Options};
use measure::{Effort, Figure, Part, Progress, Share, System, Testbed};

use super::{
    bench_admission, bench_crypto, bench_http, bench_https, bench_laslb, bench_xdp, bench_xenoflow,
};
use crate::cli::{
    BenchCommand, BenchCompareArgs, BenchPaperArgs, BenchPartArgs, BenchRunArgs, BenchTableArgs,
};
use crate::{CommandError, CommandResult, output, stop};

/// Milliseconds of a measured point of a single part.
const POINT_MS: u64 = 150;
const QUICK_POINT_MS: u64 = 60;
/// How often each point of a single part is measured.
const REPETITIONS: u32 = 7;
/// Minutes of a whole run, unless `--minutes` says otherwise: the rest of 15 minutes is
/// a reserve.
const MINUTES: f64 = 14.0;
const QUICK_MINUTES: f64 = 1.8;
/// The exit code of a run that was interrupted, as a shell has it.
const INTERRUPTED: u8 = 130;
/// Steps of the progress bar.
const STEPS: u64 = 1000;

pub(crate) fn run(command: BenchCommand) -> CommandResult {
    match command {
        BenchCommand::Table(args) => table(args),
        BenchCommand::Xenoflow(args) => bench_xenoflow::run(&args),
        BenchCommand::Crypto(args) => bench_crypto::run(&args),
        BenchCommand::Http(args) if args.tls => bench_https::run(&args),
        BenchCommand::Http(args) => bench_http::run(&args),
        BenchCommand::Laslb(args) => bench_laslb::run(&args),
        BenchCommand::Xdp(args) => bench_xdp::run(&args),
        BenchCommand::Admission(args) => bench_admission::run(&args),
        BenchCommand::Fig4(args) => part(Part::Figure(Figure::Fig4), &args),
        BenchCommand::Fig5(args) => part(Part::Figure(Figure::Fig5), &args),
        BenchCommand::Fig6(args) => part(Part::Figure(Figure::Fig6), &args),
        BenchCommand::Fig7(args) => part(Part::Figure(Figure::Fig7), &args),
        BenchCommand::Fig8(args) => part(Part::Figure(Figure::Fig8), &args),
        BenchCommand::New(args) => part(Part::New, &args),
        BenchCommand::Latency(args) => part(Part::Latency, &args),
        BenchCommand::Churn(args) => part(Part::Churn, &args),
        BenchCommand::Workers(args) => part(Part::Workers, &args),
        BenchCommand::Paper(args) => whole(&args),
        BenchCommand::Compare(args) => compare(args),
    }
}

fn table(args: BenchTableArgs) -> CommandResult {
    let BenchTableArgs { sizes, threads, quick, ordinary_pages, json } = args;
    let outcome = table::run(&Options { sizes, threads, quick, ordinary_pages }, &mut counted()?)?;
    if json {
        for row in &outcome.rows {
            output::print(&(serde_json::to_string(row)? + "\n"))?;
        }
    } else {
        output::print(&outcome.page())?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Other tools beside HNLB.
fn compare(args: BenchCompareArgs) -> CommandResult {
    let BenchCompareArgs { seconds, rounds, json } = args;
    let contenders = compare::Contender::ALL.to_vec();
    let options = compare::Options { contenders, seconds, rounds, json };
    let fine = compare::run(&std::env::current_exe()?, &Stop::on_signals()?, &options)?;
    Ok(if fine { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// One part of the evaluation.
fn part(part: Part, args: &BenchPartArgs) -> CommandResult {
    let repetitions = args.repetitions.unwrap_or(if args.quick { 1 } else { REPETITIONS });
    let mut testbed = Testbed::start(args.run.ordinary_pages)?;
    let bar = bar()?;
    let told = bar.clone();
    let progress: Progress = Arc::new(move |part, share| {
        told.set_message(part.name());
        told.set_position((share * STEPS as f64) as u64);
    });
    let options = measure::Options {
        quick: args.quick,
        repetitions,
        strict_round_robin: args.run.strict_round_robin,
        point_ms: args.point_ms.unwrap_or(if args.quick { QUICK_POINT_MS } else { POINT_MS }),
        alone: args.run.alone,
        busy: args.run.busy,
        systems: systems(&args.run.systems),
        connections: args.connections.clone(),
        progress: Some(progress),
        stop: Some(stop::on_signal()?.stop),
        ..measure::Options::default()
    };
    let findings = testbed.part(part, &options)?;
    bar.finish_and_clear();
    let settings = vec![
        ("Repetitions".to_owned(), repetitions.to_string()),
        ("Milliseconds of a point".to_owned(), options.point_ms.to_string()),
        ("Memory".to_owned(), testbed.memory()),
        ("One core for both".to_owned(), args.run.alone.to_string()),
        ("Strict round robin".to_owned(), args.run.strict_round_robin.to_string()),
    ];
    tell(findings, settings, &args.run, options.stopped())
}

/// The whole evaluation in a given time.
fn whole(args: &BenchPaperArgs) -> CommandResult {
    let minutes = args.minutes.unwrap_or(if args.quick { QUICK_MINUTES } else { MINUTES });
    let shares = measure::shares(args.quick);
    let budget = Duration::try_from_secs_f64(minutes * 60.0)?;
    let effort = args.repetitions.map_or(Effort::Within(budget), Effort::Repetitions);
    let stop = stop::on_signal()?.stop;
    let mut testbed = Testbed::start(args.run.ordinary_pages)?;
    let bar = bar()?;
    let options = measure::Options {
        quick: args.quick,
        alone: args.run.alone,
        busy: args.run.busy,
        strict_round_robin: args.run.strict_round_robin,
        systems: systems(&args.run.systems),
        connections: args.connections.clone(),
        progress: Some(over_all(&bar, shares, effort)),
        stop: Some(Arc::clone(&stop)),
        ..measure::Options::default()
    };
    let start = Instant::now();
    let findings = testbed.whole(&shares, effort, &options)?;
    bar.finish_and_clear();
    let mut settings = vec![
        ("Memory".to_owned(), testbed.memory()),
        ("One core for both".to_owned(), args.run.alone.to_string()),
        ("Strict round robin".to_owned(), args.run.strict_round_robin.to_string()),
        ("Time".to_owned(), clock(start.elapsed())),
    ];
    settings.extend(shares.iter().map(|share| {
        let text = format!(
            "points of {} ms, {} % of the time (as often as column n says)",
            share.point_ms, share.percent
        );
        (share.part.name().to_owned(), text)
    }));
    tell(findings, settings, &args.run, options.stopped())
}

/// One bar over all parts: by the time, if there is an end of it, else each part
/// as long as its share.
fn over_all(bar: &ProgressBar, shares: [Share; 9], effort: Effort) -> Progress {
    let (told, start) = (bar.clone(), Instant::now());
    Arc::new(move |part, done| {
        let before = shares.iter().take_while(|share| share.part != part);
        let from: u32 = before.map(|share| share.percent).sum();
        let own = shares.iter().find(|share| share.part == part).map_or(0, |share| share.percent);
        let position = match effort {
            Effort::Within(budget) => start.elapsed().div_duration_f64(budget).min(1.0),
            Effort::Repetitions(_) => (f64::from(from) + done * f64::from(own)) / 100.0,
        };
        told.set_message(part.name());
        told.set_position((position * STEPS as f64) as u64);
    })
}

/// Minutes and seconds.
fn clock(time: Duration) -> String {
    let seconds = time.as_secs_f64().round() as u64;
    match (seconds / 3600, seconds / 60 % 60, seconds % 60) {
        (0, 0, seconds) => format!("{seconds} s"),
        (0, minutes, seconds) => format!("{minutes} min {seconds} s"),
        (hours, minutes, _) => format!("{hours} h {minutes} min"),
    }
}

/// A bar of steps, told how many are done and how many there are; it goes with
/// the last.
pub(crate) fn counted() -> Result<impl FnMut(usize, usize), CommandError> {
    let style = ProgressStyle::with_template("{bar:40} {pos} of {len}, {elapsed} so far")?;
    let bar = ProgressBar::new(0).with_style(style);
    Ok(move |done, of| {
        bar.set_length(of as u64);
        bar.set_position(done as u64);
        if done == of {
            bar.finish_and_clear();
        }
    })
}

fn bar() -> Result<ProgressBar, CommandError> {
    let style = ProgressStyle::with_template("{msg:16} {bar:40} {percent} %, {elapsed} so far")?;
    Ok(ProgressBar::new(STEPS).with_style(style))
}

fn systems(asked: &[System]) -> Vec<System> {
    if asked.is_empty() { System::ALL.to_vec() } else { asked.to_vec() }
}

/// Prints what was found, and writes it where it is wanted.
fn tell(
    findings: Findings,
    settings: Vec<(String, String)>,
    args: &BenchRunArgs,
    interrupted: bool,
) -> CommandResult {
    let &BenchRunArgs { json, alone, busy, ref out, .. } = args;
    let mut report = Report::new(Machine::this(&dpdk::eal::version()), settings, findings);
    report.interrupted = interrupted;
    if interrupted {
        report.notes.push(page::INTERRUPTED.to_owned());
    }
    if alone {
        report.notes.push(page::ALONE.to_owned());
    }
    if busy {
        report.notes.push(page::BUSY.to_owned());
    }
    if json {
        for row in report.findings().json_rows()? {
            output::print(&(row.to_string() + "\n"))?;
        }
    } else {
        output::print(&page::page(&report, alone))?;
    }
    if let Some(dir) = out {
        for file in report.write(dir)? {
            eprintln!("{}", file.display());
        }
    }
    if interrupted {
        eprintln!("interrupted: this is what had been measured");
        return Ok(ExitCode::from(INTERRUPTED));
    }
    Ok(ExitCode::SUCCESS)
}
