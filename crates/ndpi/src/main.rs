//! `hnlb-ndpi`: a network function that classifies every flow with libndpi.
#![forbid(unsafe_code)]

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use clap::{Args, Parser, Subcommand};
use dpdk::{Eal, EalConfig};
use measure::laslb::ServiceTimes;
use middlebox::{Attachment, Function};
use ndpi::{Inspector, check, record};
use signal_hook::consts::{SIGINT, SIGTERM};

/// Deep packet inspection at an attachment of `hnlb nf run`, until Ctrl-C or SIGTERM;
/// then prints what it has seen as JSON. Example: hnlb-ndpi --attach
/// vhost:/run/hnlb/nf0.sock
#[derive(Debug, Parser)]
#[command(name = "hnlb-ndpi", version, max_term_width = 100)]
#[command(args_conflicts_with_subcommands = true, arg_required_else_help = true)]
struct Cli {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    run: RunArgs,
}

#[derive(Debug, Args)]
struct RunArgs {
    /// The attachment, as it is in the server's configuration.
    #[arg(long, value_name = "ATTACHMENT", required = true)]
    attach: Option<Attachment>,
    /// Take memory from huge pages only.
    #[arg(long)]
    huge_pages: bool,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Record how long libndpi takes for each packet, for `hnlb bench laslb --service`.
    /// Example: hnlb-ndpi record --out times.json
    Record {
        /// The file.
        #[arg(long, value_name = "FILE")]
        out: PathBuf,
        /// Flows of each application.
        #[arg(long, value_name = "N", default_value_t = 5000)]
        flows: u32,
    },
    /// Compare the simulation of one processor with a real instance on a core of its
    /// own, at 20, 50, 80 and 95 % load. Packets that other processes disturbed are left
    /// out, and a load with too many of them is tried again. Example: hnlb-ndpi check
    /// --service times.json
    Check {
        /// The recorded times.
        #[arg(long, value_name = "FILE")]
        service: PathBuf,
        /// Packets of each load.
        #[arg(long, value_name = "N", default_value_t = 200_000)]
        packets: usize,
        /// The instance's core; by default the last. The source has another.
        #[arg(long, value_name = "CORE")]
        core: Option<u32>,
        /// Print a JSON object a load.
        #[arg(long)]
        json: bool,
    },
}

type Outcome = Result<(), Box<dyn std::error::Error>>;

fn main() -> ExitCode {
    let cli = Cli::parse();
    tracing_subscriber::fmt().with_writer(std::io::stderr).init();
    let outcome = match cli.command {
        None => run(&cli.run),
        Some(Command::Record { out, flows }) => write_times(&out, flows),
        Some(Command::Check { service, packets, core, json }) => {
            compare(&service, packets, core, json)
        }
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("hnlb-ndpi: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(args: &RunArgs) -> Outcome {
    let Some(attach) = &args.attach else { return Err("--attach is missing".into()) };
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        signal_hook::flag::register_conditional_shutdown(signal, 130, Arc::clone(&stop))?;
        signal_hook::flag::register(signal, Arc::clone(&stop))?;
    }
    let mut inspector = Inspector::new().ok_or("libndpi has no memory for its protocols")?;
    let pages = if args.huge_pages { dpdk::HugePages::Require } else { dpdk::HugePages::Auto };
    let report = Function::attach(attach, pages)?.run(&mut inspector, &stop)?;
    println!("{}", serde_json::to_string(&report)?);
    Ok(())
}

/// The cycle counter's rate is known once EAL runs.
fn eal() -> Result<Eal, dpdk::EalError> {
    let huge_pages = dpdk::HugePages::Never;
    Eal::init(&EalConfig { memory_mb: 64, huge_pages, ..EalConfig::default() })
}

fn write_times(out: &std::path::Path, flows: u32) -> Outcome {
    let _eal = eal()?;
    let machine = measure::report::Machine::this(&dpdk::eal::version());
    let mut shown = 0;
    let mut progress = |done: u32, all: u32| {
        let percent = done * 100 / all.max(1);
        if percent >= shown + 10 {
            shown = percent;
            eprintln!("record: {percent} %");
        }
    };
    let times = record::record(flows, machine.cpu, &mut progress)
        .ok_or("libndpi has no memory for its protocols")?;
    std::fs::write(out, serde_json::to_string(&times)? + "\n")
        .map_err(|error| format!("{}: {error}", out.display()))?;
    println!(
        "{:<10} {:>8} {:>8} {:>8}   ns: median by place in the flow",
        "", "first", "4th", "later"
    );
    for times in &times.applications {
        let median = |place: Option<&Vec<u32>>| {
            place.and_then(|own| own.get(own.len() / 2)).copied().unwrap_or(0)
        };
        let places = &times.packets;
        let (first, fourth, later) = (places.first(), places.get(3), places.last());
        println!(
            "{:<10} {:>8} {:>8} {:>8}",
            times.application,
            median(first),
            median(fourth),
            median(later)
        );
    }
    Ok(())
}

fn compare(file: &std::path::Path, packets: usize, core: Option<u32>, json: bool) -> Outcome {
    let named = |error: String| format!("{}: {error}", file.display());
    let text = std::fs::read_to_string(file).map_err(|error| named(error.to_string()))?;
    let times: ServiceTimes =
        serde_json::from_str(&text).map_err(|error| named(error.to_string()))?;
    if !times.is_whole() {
        return Err(named("it lacks an application or its times".to_owned()).into());
    }
    let _eal = eal()?;
    if !json {
        println!("{HEAD}");
    }
    let mut verdicts = Vec::new();
    check::check(&times, packets, core, &mut |row| {
        verdicts.push((row.load_percent, row.is_within));
        if json {
            println!("{}", serde_json::to_string(row).unwrap_or_default());
        } else {
            println!("{}", line(row));
        }
    })?;
    if !json {
        let of = |wanted| {
            let loads = verdicts.iter().filter(|(_, is_within)| *is_within == wanted);
            let loads: Vec<String> = loads.map(|(load, _)| format!("{load} %")).collect();
            if loads.is_empty() { "none".to_owned() } else { loads.join(", ") }
        };
        println!("p95 within 20 % of the simulation's: {}", of(Some(true)));
        println!("further apart: {}; not comparable: {}", of(Some(false)), of(None));
    }
    Ok(())
}

const HEAD: &str = " load   real   packets disturbed tries   p50 us sim / real   p95 us sim / real   \
     p99 us sim / real       dropped  p95";

fn line(row: &check::Row) -> String {
    let pair = |simulated: f64, real: f64| format!("{simulated:>9.1} {real:>9.1}");
    let verdict = match row.is_within {
        Some(true) => "within 20 %",
        Some(false) => "apart",
        None => "disturbed",
    };
    format!(
        "{:>4}% {:>5.1}% {:>9} {:>8.1}% {:>5} {} {} {} {:>6} {:>6}  {verdict}",
        row.load_percent,
        row.real_load_percent,
        row.packets,
        row.disturbed_percent,
        row.tries,
        pair(row.simulated_p50_us, row.real_p50_us),
        pair(row.simulated_p95_us, row.real_p95_us),
        pair(row.simulated_p99_us, row.real_p99_us),
        row.simulated_dropped,
        row.real_dropped
    )
}
