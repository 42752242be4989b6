//! Every command and every flag, with its documentation.
use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};
use flow::{CardProfile, Encoding};

/// The hybrid load balancer: a stateful layer-4 load balancer on DPDK that
/// keeps its connection table in the match tables of the NIC too.
#[derive(Debug, Parser)]
#[command(name = "hnlb", version, max_term_width = 100)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run the load balancer until Ctrl-C or SIGTERM.
    Run(RunArgs),
    /// Check a configuration file and say what is wrong with it.
    Check(CheckArgs),
    /// Show what a running load balancer does.
    Status(StatusArgs),
    /// Drain a backend of a running load balancer, or let it serve again.
    #[command(subcommand)]
    Backend(BackendCommand),
    /// Send a capture through the whole data path, without any device.
    Replay(ReplayArgs),
    /// Keep a lab of network namespaces standing: clients, HNLB, backends.
    #[command(subcommand)]
    Lab(lab::LabCommand),
    /// Measure a part of HNLB next to what it replaces.
    #[command(subcommand)]
    Bench(BenchCommand),
    /// Print the JSON Schema of the configuration file.
    Schema,
}

/// `hnlb run`
#[derive(Debug, Args)]
pub(crate) struct RunArgs {
    /// The configuration file (TOML).
    #[arg(long, value_name = "FILE")]
    pub(crate) config: PathBuf,
}

/// `hnlb check`
#[derive(Debug, Args)]
pub(crate) struct CheckArgs {
    /// The configuration file (TOML).
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
}

/// `hnlb status`
#[derive(Debug, Args)]
pub(crate) struct StatusArgs {
    /// The status socket, as in `[status] socket` of the configuration.
    #[arg(long, value_name = "PATH", default_value = "/run/hnlb/hnlb.sock")]
    pub(crate) socket: PathBuf,
    /// Tell why the connections of this client are, or are not, in the NIC, and
    /// since when.
    #[arg(long, value_name = "ADDRESS:PORT")]
    pub(crate) connection: Option<SocketAddr>,
    /// Print the whole report, or the answer, as JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

/// `hnlb backend`
#[derive(Debug, Subcommand)]
pub(crate) enum BackendCommand {
    /// Give it no new connections; those that exist stay. Of a stateless service
    /// its clients go to the others, and no other client moves.
    Drain(BackendArgs),
    /// Let it serve as before; of a stateless service it gets its own clients back.
    Restore(BackendArgs),
}

/// Which backend.
#[derive(Debug, Args)]
pub(crate) struct BackendArgs {
    /// The service's name, as in the configuration.
    #[arg(value_name = "SERVICE")]
    pub(crate) service: String,
    /// The backend's address; all of its ports.
    #[arg(value_name = "ADDRESS")]
    pub(crate) backend: std::net::IpAddr,
    /// The status socket, as in `[status] socket` of the configuration.
    #[arg(long, value_name = "PATH", default_value = "/run/hnlb/hnlb.sock")]
    pub(crate) socket: PathBuf,
    /// Print the answer as JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

/// `hnlb replay`
#[derive(Debug, Args)]
pub(crate) struct ReplayArgs {
    /// The configuration file (TOML).
    #[arg(long, value_name = "FILE")]
    pub(crate) config: PathBuf,
    /// Put this emulated NIC in front, whatever the configuration says.
    #[arg(long, value_enum, value_name = "PROFILE")]
    pub(crate) nic: Option<CardProfile>,
    /// The encoding to use with the emulated NIC.
    #[arg(long, value_enum, default_value_t = Encoding::Mark, requires = "nic")]
    pub(crate) encoding: Encoding,
    /// The port that the captured packets arrive at [default: the first].
    #[arg(long, value_name = "NAME")]
    pub(crate) port: Option<String>,
    /// Print the counters as JSON.
    #[arg(long)]
    pub(crate) json: bool,
    /// The capture to read, pcap or pcapng.
    #[arg(value_name = "IN")]
    pub(crate) input: PathBuf,
    /// Where to write what HNLB sent, in the format of the input.
    #[arg(value_name = "OUT")]
    pub(crate) output: PathBuf,
}

/// What can be measured.
#[derive(Debug, Subcommand)]
pub(crate) enum BenchCommand {
    /// The connection table against DPDK's rte_hash: lookups, insertions, both
    /// mixed, over sizes and threads.
    Table(BenchTableArgs),
    /// Who gets the entries of a card: the share of packets matched with each
    /// policy, in emulated time.
    Admission(BenchAdmissionArgs),
    /// Figure 4 of the HNLB paper: one flow, one backend.
    Fig4(BenchPartArgs),
    /// Figure 5: throughput against the number of connections; the same for
    /// Zipf traffic, for both directions, and for the LASLB thesis' traffic.
    Fig5(BenchPartArgs),
    /// Figure 6: throughput against the packet size.
    Fig6(BenchPartArgs),
    /// Figure 7: util and util+ against the rate, for numbers of connections.
    Fig7(BenchPartArgs),
    /// Figure 8: util and util+ against the rate, for packet sizes.
    Fig8(BenchPartArgs),
    /// What a new connection costs, from the SYN to the table and to the NIC,
    /// and what the worker pays while rules are installed.
    New(BenchPartArgs),
    /// The latency through the load balancer, at parts of the maximum rate.
    Latency(BenchPartArgs),
    /// Connections that come and go among others that stay.
    Churn(BenchPartArgs),
    /// All of these in 15 minutes, with a report that sets the paper's figures
    /// beside ours.
    Paper(BenchPaperArgs),
    /// nftables DNAT and HAProxy against HNLB in a lab of network namespaces:
    /// the same clients, backends and load (root).
    Compare(BenchCompareArgs),
    /// Figures 4 to 8 of the XenoFlow paper: a model of the card for rates, the
    /// lab for added latency (root).
    Xenoflow(BenchXenoflowArgs),
}

/// What all measurements of the paper's evaluation have in common.
#[derive(Debug, Args)]
pub(crate) struct BenchRunArgs {
    /// What is measured: limit, slb-paper, slb, hnlb-queue, hnlb-mark,
    /// hnlb-shared [default: all].
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub(crate) systems: Vec<measure::System>,
    /// Source and load balancer take turns on one core: for the cost of the
    /// code alone (saturation runs only).
    #[arg(long)]
    pub(crate) alone: bool,
    /// Count what was measured while others had the cores, too: whether it
    /// works, on a busy machine (not `new`).
    #[arg(long)]
    pub(crate) busy: bool,
    /// Write results.csv, results.json, the plots and report.html into this directory.
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,
    /// Print one JSON object per row instead of the medians.
    #[arg(long)]
    pub(crate) json: bool,
}

/// `hnlb bench fig4` to `fig8`, `new`, `latency`, `churn`
#[derive(Debug, Args)]
pub(crate) struct BenchPartArgs {
    /// Fewer and shorter points: whether it works, rather than what it gives.
    #[arg(long)]
    pub(crate) quick: bool,
    /// How often every point is measured, all systems in turn.
    #[arg(long, value_name = "N", default_value_t = 7)]
    pub(crate) repetitions: u32,
    /// Milliseconds of one measured point [default: 150, with --quick 60].
    #[arg(long, value_name = "MS", value_parser = clap::value_parser!(u64).range(2..=60_000))]
    pub(crate) point_ms: Option<u64>,
    /// Numbers of connections, of those that the figure has (of `new`: sizes of
    /// the table; of `latency`: the first of the list) [default: all].
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub(crate) connections: Vec<u32>,
    #[command(flatten)]
    pub(crate) run: BenchRunArgs,
}

/// `hnlb bench paper`
#[derive(Debug, Args)]
pub(crate) struct BenchPaperArgs {
    /// Fewer and shorter points, in 2 minutes: whether it works, rather than
    /// what it gives.
    #[arg(long)]
    pub(crate) quick: bool,
    /// Minutes for everything; repetitions are as many as fit [default: 14,
    /// with --quick 1.8].
    #[arg(long, value_name = "M", value_parser = minutes)]
    pub(crate) minutes: Option<f64>,
    /// Measure every point so often, however long that takes (the paper: 30);
    /// the time is told at the start.
    #[arg(long, value_name = "N", conflicts_with = "minutes", value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(crate) repetitions: Option<u32>,
    /// Numbers of connections, of those that each figure has [default: all].
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub(crate) connections: Vec<u32>,
    #[command(flatten)]
    pub(crate) run: BenchRunArgs,
}

/// Some time, but no more than a day.
fn minutes(text: &str) -> Result<f64, String> {
    let minutes: f64 = text.parse().map_err(|_| format!("'{text}' is no number"))?;
    if minutes > 0.0 && minutes <= 1440.0 {
        Ok(minutes)
    } else {
        Err("it has to be more than 0 and at most 1440 minutes".to_owned())
    }
}

/// `hnlb bench compare`
#[derive(Debug, Args)]
pub(crate) struct BenchCompareArgs {
    /// Seconds of each load.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) seconds: u64,
    /// How often each is measured, all in turn.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) rounds: u32,
    /// Print a JSON object for each measurement instead of the table.
    #[arg(long)]
    pub(crate) json: bool,
}

/// `hnlb bench xenoflow`
#[derive(Debug, Args)]
pub(crate) struct BenchXenoflowArgs {
    /// Fewer packets and round trips: whether it works, rather than what it gives.
    #[arg(long)]
    pub(crate) quick: bool,
    /// Leave out what needs the lab: figure 7.
    #[arg(long)]
    pub(crate) without_lab: bool,
    /// Write xenoflow.json, the plots and xenoflow.html into this directory.
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,
    /// Print one JSON object per row instead of the table.
    #[arg(long)]
    pub(crate) json: bool,
}

/// `hnlb bench admission`
#[derive(Debug, Args)]
pub(crate) struct BenchAdmissionArgs {
    /// Connections.
    #[arg(long, value_name = "N", default_value_t = 1_000_000)]
    pub(crate) connections: u32,
    /// Entries of the card, one for each connection.
    #[arg(long, value_name = "N", default_value_t = 8_192)]
    pub(crate) entries: usize,
    /// Insertions that the card takes in a second.
    #[arg(long, value_name = "N", default_value_t = 1_000)]
    pub(crate) insertions: u32,
    /// Packets per second of all connections; one in 64 is sampled.
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_values_t = [5_000_000])]
    pub(crate) packets: Vec<u64>,
    /// How often everything is run, each time with other chances.
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..=1000))]
    pub(crate) seeds: u64,
    /// Exponents of Zipf's law.
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_values_t = [1.0, 1.1, 1.2])]
    pub(crate) alphas: Vec<f64>,
    /// Print one JSON object for each look at a card, every 250 ms, instead of
    /// the table.
    #[arg(long)]
    pub(crate) json: bool,
}

/// `hnlb bench table`
#[derive(Debug, Args)]
pub(crate) struct BenchTableArgs {
    /// Entries of the tables [default: 1k,8k,64k,1M,10M].
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = measure::table::parse_size)]
    pub(crate) sizes: Vec<u32>,
    /// Numbers of threads, each on a core of its own [default: 1,2].
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub(crate) threads: Vec<usize>,
    /// Fewer repetitions, and sizes 1k and 64k unless --sizes says otherwise.
    #[arg(long)]
    pub(crate) quick: bool,
    /// Print one JSON object per figure instead of the page.
    #[arg(long)]
    pub(crate) json: bool,
}
