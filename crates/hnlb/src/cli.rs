//! Every command and every flag, with its documentation.
mod announce;
mod bench;
mod change;
mod examples;
mod machine;
mod observe;
mod packets;

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};

pub(crate) use self::announce::{
    AnnounceCommand, AnnounceShowArgs, DrainArgs, RenderArgs, Renderer,
};
pub(crate) use self::bench::{
    BenchAdmissionArgs, BenchCommand, BenchCompareArgs, BenchCryptoArgs, BenchHttpArgs,
    BenchLaslbArgs, BenchPaperArgs, BenchPartArgs, BenchRunArgs, BenchTableArgs, BenchXdpArgs,
    BenchXenoflowArgs,
};
pub(crate) use self::change::{
    BackendAddArgs, BackendArgs, BackendCommand, ConfigCommand, ReloadArgs,
};
pub(crate) use self::examples::{command, parse};
pub(crate) use self::machine::{DoctorArgs, NicCommand, NicListArgs, NicProbeArgs, SetupArgs};
pub(crate) use self::observe::{ConnectionsArgs, StatusArgs, Top, TopArgs, WhyNotOffloadedArgs};
pub(crate) use self::packets::{CaptureArgs, ExplainArgs, ReplayArgs, TracedFrames};

/// The hybrid load balancer: a stateful layer-4 load balancer on DPDK that
/// offloads its connection table into the match tables of the NIC.
#[derive(Debug, Parser)]
#[command(name = "hnlb", version, max_term_width = 100)]
pub(crate) struct Cli {
    /// How the log on standard error is written.
    #[arg(long, global = true, value_enum, value_name = "FORMAT", default_value_t)]
    pub(crate) log_format: LogFormat,
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// How the log is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum LogFormat {
    /// Lines for people.
    #[default]
    Text,
    /// A JSON object for each line: timestamp, level, target, fields.
    Json,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run the load balancer until Ctrl-C or SIGTERM.
    Run(RunArgs),
    /// Serve the control API for `hnlb run`, which starts this command itself.
    #[command(hide = true)]
    Api(ApiArgs),
    /// Keep the private keys for `hnlb run`, which starts this command itself.
    #[command(hide = true)]
    Keys,
    /// Check a configuration file and list every error in it.
    Check(CheckArgs),
    /// Show the state and the counters of a running load balancer.
    Status(StatusArgs),
    /// Watch a running load balancer in the terminal: services, backends, workers, ports,
    /// rates and util+.
    Top(TopArgs),
    /// Show connections of a running load balancer.
    Connections(ConnectionsArgs),
    /// Show where a packet would go and why: its service, its backend, its entry in the
    /// connection table, its rules in the NIC, and what changes in it. Asks a running
    /// load balancer, or with --config a replay that needs none.
    Explain(ExplainArgs),
    /// Show why connections are not in the NIC: how many have which reason, or the reason
    /// of the connections of one client.
    WhyNotOffloaded(WhyNotOffloadedArgs),
    /// Capture what the workers of a running load balancer receive and send into a pcapng
    /// file, with what became of each packet and why as its comment.
    Capture(CaptureArgs),
    /// Save the configuration of a running load balancer.
    #[command(subcommand)]
    Config(ConfigCommand),
    /// Drain, restore, add, weigh or remove a backend of a running load balancer.
    #[command(subcommand)]
    Backend(BackendCommand),
    /// Take a load balancer out of service: its VIPs are withdrawn, so that routers send
    /// packets to others; what still comes is served.
    Drain(DrainArgs),
    /// Announce the VIPs again after `hnlb drain --all`.
    Restore(DrainArgs),
    /// Which VIPs routers are told of, and the configuration of the programs that tell
    /// them.
    #[command(subcommand)]
    Announce(AnnounceCommand),
    /// Read the configuration of a running load balancer again. What stays in it
    /// never notices; SIGHUP does the same.
    Reload(ReloadArgs),
    /// Show what a reload would change: the file against what is running.
    Diff(ReloadArgs),
    /// Send a packet capture through the whole data path, without any device.
    Replay(ReplayArgs),
    /// Set up and use a lab of network namespaces with clients, HNLB and backends.
    #[command(subcommand)]
    Lab(lab::LabCommand),
    /// Run a middlebox server: paired ports with network functions between them,
    /// balanced by latency (LASLB).
    #[command(subcommand)]
    Nf(crate::cli_nf::NfCommand),
    /// Measure a part of HNLB beside what it replaces.
    #[command(subcommand)]
    Bench(BenchCommand),
    /// Show what the machine lacks for a configuration, with the command that mends it:
    /// huge pages, IOMMU, drivers, cores, MTU. Fails if HNLB cannot work as it is.
    Doctor(DoctorArgs),
    /// The machine's network cards.
    #[command(subcommand)]
    Nic(NicCommand),
    /// Write a first configuration, for one port and one service, from flags; on a terminal
    /// from questions about what the flags leave out.
    Setup(SetupArgs),
    /// Print the JSON Schema of the configuration file.
    Schema,
    /// Write a man page for each command into a directory.
    Man(ManArgs),
    /// Print the completions of commands and flags for a shell.
    Completions(CompletionsArgs),
}

/// `hnlb man`
#[derive(Debug, Args)]
pub(crate) struct ManArgs {
    /// The directory; it must be there.
    #[arg(value_name = "DIR")]
    pub(crate) directory: PathBuf,
}

/// `hnlb completions`
#[derive(Debug, Args)]
pub(crate) struct CompletionsArgs {
    /// The shell.
    #[arg(value_enum, value_name = "SHELL")]
    pub(crate) shell: clap_complete::Shell,
}

/// `hnlb run`
#[derive(Debug, Args)]
pub(crate) struct RunArgs {
    /// The configuration file (TOML).
    #[arg(long, value_name = "FILE")]
    pub(crate) config: PathBuf,
}

/// `hnlb api`
#[derive(Debug, Args)]
pub(crate) struct ApiArgs {
    /// The number of the user who may change things, as root may.
    #[arg(long, value_name = "UID")]
    pub(crate) owner: u32,
    /// The address and port of the API over TCP.
    #[arg(long, requires_all = ["certificate", "key", "tokens"])]
    pub(crate) listen: Option<SocketAddr>,
    /// The file with its certificate.
    #[arg(long)]
    pub(crate) certificate: Option<PathBuf>,
    /// The file with the certificate's key.
    #[arg(long)]
    pub(crate) key: Option<PathBuf>,
    /// The file with the tokens of clients.
    #[arg(long)]
    pub(crate) tokens: Option<PathBuf>,
    /// A host name that clients may ask by.
    #[arg(long = "name")]
    pub(crate) names: Vec<String>,
}

/// `hnlb check`
#[derive(Debug, Args)]
pub(crate) struct CheckArgs {
    /// The configuration file (TOML).
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
    /// Print errors and warnings as JSON.
    #[arg(long)]
    pub(crate) json: bool,
}
