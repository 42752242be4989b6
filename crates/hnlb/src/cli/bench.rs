//! The flags of `hnlb bench`.
use std::path::PathBuf;

use clap::{Args, Subcommand};

/// The measurements.
#[derive(Debug, Subcommand)]
pub(crate) enum BenchCommand {
    /// The connection table beside DPDK's rte_hash: lookups and insertions, by table
    /// size and number of threads.
    Table(BenchTableArgs),
    /// Admission policies: the share of packets that the card matches with each
    /// policy, in emulated time.
    Admission(BenchAdmissionArgs),
    /// Figure 4 of the HNLB paper: one flow, one backend.
    Fig4(BenchPartArgs),
    /// Figure 5: throughput against the number of connections, also with Zipf
    /// traffic, with both directions, and with the traffic of the LASLB thesis.
    Fig5(BenchPartArgs),
    /// Figure 6: throughput against the packet size.
    Fig6(BenchPartArgs),
    /// Figure 7: util and util+ against the rate, for numbers of connections.
    Fig7(BenchPartArgs),
    /// Figure 8: util and util+ against the rate, for packet sizes.
    Fig8(BenchPartArgs),
    /// The cost of a new connection, from the SYN to the connection table and to
    /// the NIC, and the worker's cost while rules are installed.
    New(BenchPartArgs),
    /// The latency through the load balancer, at fractions of the maximum rate.
    Latency(BenchPartArgs),
    /// Connections that come and go among others that stay.
    Churn(BenchPartArgs),
    /// The throughput of one and of two workers that share the table of
    /// connections, by packet size (figure 6 of the LB-NIC paper).
    Workers(BenchPartArgs),
    /// All of the above from `fig4` on in 15 minutes, with a report that shows the
    /// paper's figures beside the measured ones.
    Paper(BenchPaperArgs),
    /// HNLB beside nftables DNAT and HAProxy in a lab of network namespaces, with
    /// the same clients, backends and load (needs root).
    Compare(BenchCompareArgs),
    /// Figures 4 to 8 of the XenoFlow paper: rates from a model of the card, added
    /// latency from the lab (needs root).
    Xenoflow(BenchXenoflowArgs),
    /// Figure 4 of the LB-NIC paper: TLS handshakes and records a second of one core,
    /// and what records lose to handshakes on the same core and on another.
    Crypto(BenchCryptoArgs),
    /// Processor time of an HTTP request through HNLB, HAProxy and nginx in a lab of
    /// network namespaces, by the length of responses (needs root).
    Http(BenchHttpArgs),
    /// The evaluation of the LASLB thesis (chapter 6), simulated: eight processors, the
    /// algorithms that spread buckets of flows over them, RSS and a software balancer.
    Laslb(BenchLaslbArgs),
    /// Nanoseconds per packet of the XDP program that forwards connections in the
    /// kernel, beside a program that only swaps Ethernet addresses (needs root).
    Xdp(BenchXdpArgs),
}

/// `hnlb bench laslb`
#[derive(Debug, Args)]
pub(crate) struct BenchLaslbArgs {
    /// Simulate fewer loads and draws: a functional check within two minutes.
    #[arg(long)]
    pub(crate) quick: bool,
    /// How many draws of addresses every point is simulated with [default: 100, with
    /// --quick 4].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub(crate) draws: Option<u32>,
    /// Take service times from this file, which `hnlb-ndpi record` writes, instead of the
    /// model's.
    #[arg(long, value_name = "FILE")]
    pub(crate) service: Option<PathBuf>,
    /// Hash each direction of a flow by itself, as the thesis does. By default both
    /// directions of a flow are on one processor, as a network function with state needs it.
    #[arg(long)]
    pub(crate) thesis_hash: bool,
    /// Write laslb.json, the plots and laslb.html into this directory.
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,
    /// Print one JSON object per row instead of the tables.
    #[arg(long)]
    pub(crate) json: bool,
}

/// The flags that all measurements of the paper's evaluation have.
#[derive(Debug, Args)]
pub(crate) struct BenchRunArgs {
    /// The systems to measure: limit, slb-paper, slb-bulk, slb, hnlb-queue,
    /// hnlb-mark, hnlb-shared [default: all].
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub(crate) systems: Vec<measure::System>,
    /// Run the traffic source and the load balancer by turns on one core, which
    /// measures the cost of the code alone (saturation runs only).
    #[arg(long)]
    pub(crate) alone: bool,
    /// Also keep points that were measured while other processes had the cores:
    /// for a functional check on a busy machine (not with `new`).
    #[arg(long)]
    pub(crate) busy: bool,
    /// Ask every receive queue in every round, as the paper's loop does, instead
    /// of letting queues rest that bring little under load.
    #[arg(long)]
    pub(crate) strict_round_robin: bool,
    /// Use ordinary memory pages for all tables and packets. By default huge pages
    /// are used for all of them, and reserved for the run where HNLB may do so.
    #[arg(long)]
    pub(crate) ordinary_pages: bool,
    /// Write results.csv, results.json, the plots and report.html into this directory.
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,
    /// Print one JSON object per row instead of the medians.
    #[arg(long)]
    pub(crate) json: bool,
}

/// `hnlb bench fig4` to `fig8`, `new`, `latency`, `churn`, `workers`
#[derive(Debug, Args)]
pub(crate) struct BenchPartArgs {
    /// Measure fewer and shorter points: a functional check, not a measurement.
    #[arg(long)]
    pub(crate) quick: bool,
    /// How often every point is measured; the systems take turns [default: 7, with
    /// --quick 1].
    #[arg(long, value_name = "N")]
    pub(crate) repetitions: Option<u32>,
    /// The length of one measured point in milliseconds [default: 150, with
    /// --quick 60].
    #[arg(long, value_name = "MS", value_parser = clap::value_parser!(u64).range(2..=60_000))]
    pub(crate) point_ms: Option<u64>,
    /// Measure only these of the figure's numbers of connections (with `new`:
    /// table sizes; with `latency`: the first of the list) [default: all].
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub(crate) connections: Vec<u32>,
    #[command(flatten)]
    pub(crate) run: BenchRunArgs,
}

/// `hnlb bench paper`
#[derive(Debug, Args)]
pub(crate) struct BenchPaperArgs {
    /// Measure fewer and shorter points in 2 minutes: a functional check, not a
    /// measurement.
    #[arg(long)]
    pub(crate) quick: bool,
    /// The minutes that everything may take; repetitions are as many as fit
    /// [default: 14, with --quick 1.8].
    #[arg(long, value_name = "M", value_parser = minutes)]
    pub(crate) minutes: Option<f64>,
    /// Measure every point this often, however long that takes (the paper: 30,
    /// about an hour).
    #[arg(long, value_name = "N", conflicts_with = "minutes", value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(crate) repetitions: Option<u32>,
    /// Measure only these of each figure's numbers of connections [default: all].
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub(crate) connections: Vec<u32>,
    #[command(flatten)]
    pub(crate) run: BenchRunArgs,
}

/// A duration in minutes, at most a day.
fn minutes(text: &str) -> Result<f64, String> {
    let minutes: f64 = text.parse().map_err(|_| format!("'{text}' is not a number"))?;
    if minutes > 0.0 && minutes <= 1440.0 {
        Ok(minutes)
    } else {
        Err("the duration must be more than 0 and at most 1440 minutes".to_owned())
    }
}

/// `hnlb bench compare`
#[derive(Debug, Args)]
pub(crate) struct BenchCompareArgs {
    /// How long each load runs, in seconds.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) seconds: u64,
    /// How often each system is measured; the systems take turns.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) rounds: u32,
    /// Print a JSON object for each measurement instead of the table.
    #[arg(long)]
    pub(crate) json: bool,
}

/// `hnlb bench xenoflow`
#[derive(Debug, Args)]
pub(crate) struct BenchXenoflowArgs {
    /// Send fewer packets: a functional check, not a measurement.
    #[arg(long)]
    pub(crate) quick: bool,
    /// Leave out figure 7, which needs the lab.
    #[arg(long)]
    pub(crate) without_lab: bool,
    /// Write xenoflow.json, the plots and xenoflow.html into this directory.
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,
    /// Print one JSON object per row instead of the table.
    #[arg(long)]
    pub(crate) json: bool,
}

/// `hnlb bench crypto`
#[derive(Debug, Args)]
pub(crate) struct BenchCryptoArgs {
    /// Measure fewer and shorter points: a functional check, not a measurement.
    #[arg(long)]
    pub(crate) quick: bool,
    /// Use ordinary memory pages for the crypto devices' records. By default huge
    /// pages are used, and reserved for the run where HNLB may do so.
    #[arg(long)]
    pub(crate) ordinary_pages: bool,
    /// Write crypto.json, the plots and crypto.html into this directory.
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,
    /// Print one JSON object per row instead of the tables.
    #[arg(long)]
    pub(crate) json: bool,
}

/// `hnlb bench http`
#[derive(Debug, Args)]
pub(crate) struct BenchHttpArgs {
    /// Measure TLS instead, which all three end: full and resumed handshakes, requests on
    /// connections that last, and these beside a flood of handshakes.
    #[arg(long)]
    pub(crate) tls: bool,
    /// Measure fewer and shorter points: a functional check within two minutes.
    #[arg(long)]
    pub(crate) quick: bool,
    /// How often each point is measured [default: 3, with --quick 1].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100))]
    pub(crate) rounds: Option<u32>,
    /// Give HNLB AF_XDP sockets of the kernel in the place of an emulated NIC. The worker
    /// makes their system calls itself, and they are charged to it.
    #[arg(long, conflicts_with = "tls")]
    pub(crate) xdp: bool,
    /// Write http.json, the plots and http.html into this directory; with --tls https.json
    /// and https.html.
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,
    /// Print one JSON object per row instead of the tables, as each is there.
    #[arg(long)]
    pub(crate) json: bool,
}

/// `hnlb bench xdp`
#[derive(Debug, Args)]
pub(crate) struct BenchXdpArgs {
    /// Run each program for fewer packets: a functional check, not a measurement.
    #[arg(long)]
    pub(crate) quick: bool,
    /// Print one JSON object per row instead of the table.
    #[arg(long)]
    pub(crate) json: bool,
}

/// `hnlb bench admission`
#[derive(Debug, Args)]
pub(crate) struct BenchAdmissionArgs {
    /// The number of connections.
    #[arg(long, value_name = "N", default_value_t = 1_000_000)]
    pub(crate) connections: u32,
    /// The number of the card's entries; a connection takes one.
    #[arg(long, value_name = "N", default_value_t = 8_192)]
    pub(crate) entries: usize,
    /// The number of insertions that the card accepts in a second.
    #[arg(long, value_name = "N", default_value_t = 1_000)]
    pub(crate) insertions: u32,
    /// Packet rates of all connections together, per second; one packet in 64 is
    /// sampled.
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_values_t = [5_000_000])]
    pub(crate) packets: Vec<u64>,
    /// How often everything is run, each time with another random seed.
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..=1000))]
    pub(crate) seeds: u64,
    /// The exponents of Zipf's law.
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_values_t = [1.0, 1.1, 1.2])]
    pub(crate) alphas: Vec<f64>,
    /// Print a JSON object with the card's state every 250 ms instead of the
    /// table.
    #[arg(long)]
    pub(crate) json: bool,
}

/// `hnlb bench table`
#[derive(Debug, Args)]
pub(crate) struct BenchTableArgs {
    /// The sizes of the tables in entries [default: 1k,8k,64k,1M,10M].
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = measure::table::parse_size)]
    pub(crate) sizes: Vec<u32>,
    /// Numbers of threads, each on a core of its own [default: 1,2].
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub(crate) threads: Vec<usize>,
    /// Measure with fewer repetitions, and with the sizes 1k and 64k unless --sizes
    /// names others.
    #[arg(long)]
    pub(crate) quick: bool,
    /// Use ordinary memory pages for all tables. By default huge pages are used for
    /// all of them, and reserved for the run where HNLB may do so.
    #[arg(long)]
    pub(crate) ordinary_pages: bool,
    /// Print one JSON object per figure instead of the page.
    #[arg(long)]
    pub(crate) json: bool,
}
