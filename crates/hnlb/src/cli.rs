//! Every command and every flag, with its documentation.
mod bench;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand};
use flow::{CardProfile, Encoding};
use top::View;

pub(crate) use self::bench::{
    BenchAdmissionArgs, BenchCommand, BenchCompareArgs, BenchCryptoArgs, BenchHttpArgs,
    BenchLaslbArgs, BenchPaperArgs, BenchPartArgs, BenchRunArgs, BenchTableArgs, BenchXdpArgs,
    BenchXenoflowArgs,
};

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
    /// Check a configuration file and list every error in it.
    Check(CheckArgs),
    /// Show the state and the counters of a running load balancer.
    Status(StatusArgs),
    /// Watch a running load balancer in the terminal: services, backends, workers, ports,
    /// rates and util+. Example: hnlb top --view workers; hnlb top --once prints one
    /// picture.
    Top(TopArgs),
    /// Show connections of a running load balancer.
    Connections(ConnectionsArgs),
    /// Show where a packet would go and why: its service, its backend, its entry in the
    /// connection table, its rules in the NIC, and what changes in it. Asks a running
    /// load balancer, or with --config a replay that needs none. Example: hnlb explain
    /// tcp 198.51.100.7:40000 192.0.2.100:80
    Explain(ExplainArgs),
    /// Show why connections are not in the NIC: how many have which reason, or the reason
    /// of the connections of one client. Example: hnlb why-not-offloaded
    /// 198.51.100.7:40000
    WhyNotOffloaded(WhyNotOffloadedArgs),
    /// Capture what the workers of a running load balancer receive and send into a pcapng
    /// file, with what became of each packet and why as its comment. Example: hnlb
    /// capture web.pcapng --service web --count 100
    Capture(CaptureArgs),
    /// Save the configuration of a running load balancer.
    #[command(subcommand)]
    Config(ConfigCommand),
    /// Drain, restore, add, weigh or remove a backend of a running load balancer.
    #[command(subcommand)]
    Backend(BackendCommand),
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
    /// Write a first configuration, for one port and one service. Example: hnlb setup
    /// --device 0000:3b:00.0 --address 192.0.2.1/24 --vip 192.0.2.100:80 --backend
    /// 192.0.2.11 --backend 192.0.2.12
    Setup(SetupArgs),
    /// Print the JSON Schema of the configuration file.
    Schema,
    /// Write a man page for each command into a directory.
    Man(ManArgs),
    /// Print the completions of commands and flags for a shell.
    Completions(CompletionsArgs),
}

/// `hnlb doctor`
#[derive(Debug, Args)]
pub(crate) struct DoctorArgs {
    /// The configuration file (TOML); by default /etc/hnlb/hnlb.toml, and without that
    /// file the machine is looked at for itself.
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// Print the findings as JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

/// `hnlb nic`
#[derive(Debug, Subcommand)]
pub(crate) enum NicCommand {
    /// List the cards, their drivers and interfaces, and whether DPDK can have them.
    List(NicListArgs),
}

/// `hnlb nic list`
#[derive(Debug, Args)]
pub(crate) struct NicListArgs {
    /// Print the cards as JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

/// `hnlb setup`
#[derive(Debug, Args)]
pub(crate) struct SetupArgs {
    /// The DPDK device: a PCI address (hnlb nic list), or net_af_packet0,iface=NAME for
    /// an interface of the kernel.
    #[arg(long, value_name = "DEVICE")]
    pub(crate) device: String,
    /// An address of HNLB's own on that link, with its prefix length; may be given
    /// several times.
    #[arg(long = "address", value_name = "ADDRESS/LENGTH", required = true)]
    pub(crate) addresses: Vec<String>,
    /// The router to all other networks, once for each family.
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) gateway: Vec<std::net::IpAddr>,
    /// Cores for workers, one worker each [default: one worker on any core].
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub(crate) cores: Vec<u16>,
    /// The service's name.
    #[arg(long, value_name = "NAME", default_value = "web")]
    pub(crate) name: String,
    /// The address and port that clients speak to.
    #[arg(long, value_name = "ADDRESS:PORT")]
    pub(crate) vip: SocketAddr,
    /// The transport protocol.
    #[arg(long, value_enum, default_value = "tcp")]
    pub(crate) protocol: flow::Transport,
    /// How packets get to the backends.
    #[arg(long, value_enum, default_value = "nat")]
    pub(crate) mode: flow::Mode,
    /// Check the backends' health: tcp, http, https, icmp or grpc.
    #[arg(long, value_enum, value_name = "CHECK")]
    pub(crate) check: Option<flow::Check>,
    /// A server, by default at the port of the VIP; may be given several times.
    #[arg(long = "backend", value_name = "ADDRESS[:PORT]", required = true)]
    pub(crate) backends: Vec<String>,
    /// Write the configuration into this file, which must not be there yet [default:
    /// standard output].
    #[arg(long, value_name = "FILE")]
    pub(crate) out: Option<PathBuf>,
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
}

/// `hnlb status`
#[derive(Debug, Args)]
pub(crate) struct StatusArgs {
    /// The status socket, as in `[status] socket` of the configuration.
    #[arg(long, value_name = "PATH", default_value = "/run/hnlb/hnlb.sock")]
    pub(crate) socket: PathBuf,
    /// Explain why the connections of this client are in the NIC, or are not, and
    /// since when.
    #[arg(long, value_name = "ADDRESS:PORT")]
    pub(crate) connection: Option<SocketAddr>,
    /// Print the status, or the explanation, as JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

/// `hnlb top`
#[derive(Debug, Args)]
pub(crate) struct TopArgs {
    /// The view to begin with, or with --once the only one to print [default: backends,
    /// with --once all].
    #[arg(long, value_name = "VIEW", value_parser = view)]
    pub(crate) view: Option<View>,
    /// Sort the view by this column, as its head names it.
    #[arg(long, value_name = "COLUMN", requires = "view")]
    pub(crate) sort: Option<String>,
    /// Show only rows that contain this text.
    #[arg(long, value_name = "TEXT")]
    pub(crate) filter: Option<String>,
    /// Seconds between two reports, over which rates are means.
    #[arg(long, value_name = "SECONDS", default_value = "1", value_parser = interval)]
    pub(crate) interval: Duration,
    /// Print one picture as text, and end.
    #[arg(long)]
    pub(crate) once: bool,
    /// Print one picture as JSON, and end.
    #[arg(long, conflicts_with_all = ["once", "view", "filter"])]
    pub(crate) json: bool,
    /// The status socket, as in `[status] socket` of the configuration.
    #[arg(long, value_name = "PATH", default_value = "/run/hnlb/hnlb.sock")]
    pub(crate) socket: PathBuf,
}

fn view(text: &str) -> Result<View, String> {
    let names = || View::ALL.map(View::name).join(", ");
    let found = View::ALL.into_iter().find(|own| own.name() == text);
    found.ok_or_else(|| format!("there are the views {}", names()))
}

fn interval(text: &str) -> Result<Duration, String> {
    let seconds: f64 = text.parse().map_err(|_| format!("'{text}' is not a number"))?;
    if (0.1..=3600.0).contains(&seconds) {
        Ok(Duration::from_secs_f64(seconds))
    } else {
        Err("the time between two reports must be from 0.1 to 3600 seconds".to_owned())
    }
}

/// `hnlb backend`
#[derive(Debug, Subcommand)]
pub(crate) enum BackendCommand {
    /// Send the backend no new connections; existing connections stay. In a
    /// stateless service its clients move to the other backends, and no other
    /// client moves.
    Drain(BackendArgs),
    /// Send the backend new connections again. In a stateless service its own
    /// clients move back to it.
    Restore(BackendArgs),
    /// Add a backend to a service, at once and until the file is read again;
    /// `hnlb config save` writes it into the file.
    Add(BackendAddArgs),
    /// Give a backend another weight, at once and until the file is read again.
    Weight(BackendWeightArgs),
    /// Take a backend out of a service. Its connections go as the service's
    /// `on_remove` says.
    Remove(BackendArgs),
}

/// The arguments of `hnlb backend add`.
#[derive(Debug, Args)]
pub(crate) struct BackendAddArgs {
    #[command(flatten)]
    pub(crate) backend: BackendArgs,
    /// Its port [default: the port that the client asked for].
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) port: Option<u16>,
    /// Its share of new connections compared with the others' [default: 1, or as it is].
    #[arg(long)]
    pub(crate) weight: Option<u16>,
    /// It gets new connections only while no other backend does.
    #[arg(long)]
    pub(crate) backup: bool,
}

/// The arguments of `hnlb backend weight`.
#[derive(Debug, Args)]
pub(crate) struct BackendWeightArgs {
    #[command(flatten)]
    pub(crate) backend: BackendArgs,
    /// Its share of new connections compared with the others'; 0: none.
    #[arg(long)]
    pub(crate) weight: u16,
}

/// `hnlb config`
#[derive(Debug, Subcommand)]
pub(crate) enum ConfigCommand {
    /// Write the services in force into the configuration file, whose comments stay.
    Save(ConfigArgs),
}

/// The arguments of `hnlb config save`.
#[derive(Debug, Args)]
pub(crate) struct ConfigArgs {
    /// The status socket, as in `[status] socket` of the configuration.
    #[arg(long, value_name = "PATH", default_value = "/run/hnlb/hnlb.sock")]
    pub(crate) socket: PathBuf,
    /// Print the answer as JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

/// `hnlb connections`
#[derive(Debug, Args)]
pub(crate) struct ConnectionsArgs {
    /// Show only the connections of this client's address.
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) client: Option<std::net::IpAddr>,
    /// Show only the connections of this service.
    #[arg(long, value_name = "NAME")]
    pub(crate) service: Option<String>,
    /// Show only the connections of the backend with this address.
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) backend: Option<std::net::IpAddr>,
    /// The number of connections to leave out.
    #[arg(long, default_value_t = 0)]
    pub(crate) skip: u64,
    /// The most connections to show.
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u16).range(0..=1000))]
    pub(crate) limit: u16,
    /// The status socket, as in `[status] socket` of the configuration.
    #[arg(long, value_name = "PATH", default_value = "/run/hnlb/hnlb.sock")]
    pub(crate) socket: PathBuf,
    /// Print the connections as JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

/// `hnlb why-not-offloaded`
#[derive(Debug, Args)]
pub(crate) struct WhyNotOffloadedArgs {
    /// A client's address and port, or a 5-tuple: tcp or udp, the client's address and
    /// port, the service's [default: count the connections by reason].
    #[arg(value_name = "CONNECTION", num_args = 0..=3)]
    pub(crate) connection: Vec<String>,
    /// The status socket, as in `[status] socket` of the configuration.
    #[arg(long, value_name = "PATH", default_value = "/run/hnlb/hnlb.sock")]
    pub(crate) socket: PathBuf,
    /// Print the answer as JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

/// `hnlb capture`
#[derive(Debug, Args)]
pub(crate) struct CaptureArgs {
    /// The file, which has its name when it is whole; `-` is standard output.
    #[arg(value_name = "OUT")]
    pub(crate) out: PathBuf,
    /// Which side of the load balancer to capture.
    #[arg(long, value_enum, default_value_t)]
    pub(crate) side: flow::CaptureSide,
    /// Capture only packets that come in on this port, and what leaves because of them.
    #[arg(long, value_name = "NAME")]
    pub(crate) port: Option<String>,
    /// Capture only packets of this protocol.
    #[arg(long, value_enum)]
    pub(crate) protocol: Option<flow::Transport>,
    /// Capture only packets from or to this address, or of the connections of this
    /// client.
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) address: Option<std::net::IpAddr>,
    /// Capture only packets from or to this TCP or UDP port.
    #[arg(long, value_name = "NUMBER")]
    pub(crate) l4_port: Option<u16>,
    /// Capture only packets of this service.
    #[arg(long, value_name = "NAME")]
    pub(crate) service: Option<String>,
    /// The most packets.
    #[arg(long, default_value_t = 10_000, value_name = "NUMBER", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) count: u64,
    /// The most bytes of frames.
    #[arg(long, default_value_t = 100_000_000, value_name = "NUMBER", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) bytes: u64,
    /// The longest time in seconds.
    #[arg(long, default_value_t = 60, value_name = "NUMBER", value_parser = clap::value_parser!(u32).range(1..=3600))]
    pub(crate) seconds: u32,
    /// The status socket, as in `[status] socket` of the configuration.
    #[arg(long, value_name = "PATH", default_value = "/run/hnlb/hnlb.sock")]
    pub(crate) socket: PathBuf,
    /// Print what was captured and lost as JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

/// `hnlb explain`
#[derive(Debug, Args)]
pub(crate) struct ExplainArgs {
    /// A 5-tuple (tcp or udp, the sender's address and port, the receiver's), or a
    /// capture, pcap or pcapng, compressed by gzip or not.
    #[arg(value_name = "PACKET", num_args = 1..=3, required = true)]
    pub(crate) packet: Vec<String>,
    /// The TCP control bits of the 5-tuple's packet, as in SA [default: A for a
    /// connection in the table, S otherwise].
    #[arg(long, value_name = "LETTERS")]
    pub(crate) flags: Option<String>,
    /// The port on which the packets of a capture come in [default: an interface of a
    /// pcapng file is the port of the same name, else that of the same number].
    #[arg(long, value_name = "NAME")]
    pub(crate) port: Option<String>,
    /// The most packets of a capture to explain.
    #[arg(long, default_value_t = 100, value_name = "NUMBER")]
    pub(crate) count: u32,
    /// Ask no running load balancer: take the packets through the data path of this
    /// configuration, which has seen no others.
    #[arg(long, value_name = "FILE", conflicts_with = "socket")]
    pub(crate) config: Option<PathBuf>,
    /// The status socket, as in `[status] socket` of the configuration.
    #[arg(long, value_name = "PATH", default_value = "/run/hnlb/hnlb.sock")]
    pub(crate) socket: PathBuf,
    /// Print an object for each packet as JSON, with its bytes before and after.
    #[arg(long)]
    pub(crate) json: bool,
}

/// The arguments that all commands of `hnlb backend` have.
#[derive(Debug, Args)]
pub(crate) struct BackendArgs {
    /// The service's name, as in the configuration.
    #[arg(value_name = "SERVICE")]
    pub(crate) service: String,
    /// The backend's address; the command applies to all of its ports.
    #[arg(value_name = "ADDRESS")]
    pub(crate) backend: std::net::IpAddr,
    /// The status socket, as in `[status] socket` of the configuration.
    #[arg(long, value_name = "PATH", default_value = "/run/hnlb/hnlb.sock")]
    pub(crate) socket: PathBuf,
    /// Print the answer as JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

/// `hnlb reload` and `hnlb diff`
#[derive(Debug, Args)]
pub(crate) struct ReloadArgs {
    /// The configuration file (TOML) [default: the one that is in force].
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// Change nothing, and show what would change.
    #[arg(long)]
    pub(crate) dry_run: bool,
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
    /// Put an emulated NIC of this profile in front of every port, whatever the
    /// configuration says.
    #[arg(long, value_enum, value_name = "PROFILE")]
    pub(crate) nic: Option<CardProfile>,
    /// The encoding that the emulated NIC uses.
    #[arg(long, value_enum, default_value_t = Encoding::Mark, requires = "nic")]
    pub(crate) encoding: Encoding,
    /// The port at which the frames of IN arrive [default: an interface of a pcapng
    /// file is the port of the same name, else that of the same number]. With
    /// NAME=FILE, once for each port: the capture of that port, in the place of IN;
    /// all are merged by time.
    #[arg(long = "port", value_name = "NAME[=FILE]")]
    pub(crate) ports: Vec<String>,
    /// Print a line for each frame that is dropped or sent on, with its number as
    /// Wireshark counts, its port, what became of it, the counters that it raised, and
    /// what changed in it; with `--trace=all` a line for every frame.
    #[arg(long, value_enum, value_name = "FRAMES", num_args = 0..=1, require_equals = true, default_missing_value = "changed")]
    pub(crate) trace: Option<TracedFrames>,
    /// Print the counters as JSON, after an object for each traced frame.
    #[arg(long)]
    pub(crate) json: bool,
    /// The captures. IN is read, pcap or pcapng, compressed by gzip or not; `-` is
    /// standard input. OUT gets the packets that are sent, in the format of IN, or with
    /// several ports as pcapng with an interface for each; `-` is standard output. It is
    /// replaced when it is whole, and is none of the files that are read. The exit status
    /// is 3 if a capture that is read is cut off or damaged; OUT and the counters are
    /// about the frames before.
    #[arg(value_names = ["IN", "OUT"], num_args = 1..=2, required = true)]
    pub(crate) captures: Vec<PathBuf>,
}

/// The frames that `hnlb replay --trace` tells about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum TracedFrames {
    /// Those that are dropped or sent on.
    Changed,
    /// Every frame.
    All,
}
