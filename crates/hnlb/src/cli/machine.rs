//! What a machine has and lacks: `hnlb doctor`, `nic`, `setup`.
use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{Args, Subcommand};

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
    /// Try out a card that carries no traffic: which rules it takes and whether packets
    /// obey them, how many it holds, what they cost, which encoding follows.
    Probe(NicProbeArgs),
}

/// `hnlb nic probe`
#[derive(Debug, Args)]
pub(crate) struct NicProbeArgs {
    /// The device, as in the key device of a port: a PCI address, a virtual device of DPDK, or
    /// xdp:NAME; or emulated:PROFILE, as emulated:x550.
    #[arg(value_name = "DEVICE")]
    pub(crate) device: String,
    /// A second device that a cable leads to: it sends packets, so that it is seen whether
    /// they obey the rules, and how long they take. An emulated card needs none.
    #[arg(long, value_name = "DEVICE")]
    pub(crate) peer: Option<String>,
    /// Receive queues that are set up.
    #[arg(long, value_name = "N", default_value_t = 16, value_parser = clap::value_parser!(u16).range(1..=256))]
    pub(crate) queues: u16,
    /// Rules that are put into the match table at most.
    #[arg(long, value_name = "N", default_value_t = 65_536, value_parser = clap::value_parser!(u32).range(1..=4_194_304))]
    pub(crate) rules: u32,
    /// Packets whose latency is measured for each number of rules.
    #[arg(long, value_name = "N", default_value_t = 1000, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub(crate) packets: u32,
    /// Entries of an emulated card's match table [default: the profile's].
    #[arg(long, value_name = "N")]
    pub(crate) capacity: Option<u32>,
    /// Print what was found out as JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

/// `hnlb nic list`
#[derive(Debug, Args)]
pub(crate) struct NicListArgs {
    /// Print the cards as JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

/// `hnlb setup`
#[derive(Clone, Debug, Args)]
pub(crate) struct SetupArgs {
    /// The DPDK device: a PCI address (hnlb nic list), or net_af_packet0,iface=NAME for
    /// an interface of the kernel.
    #[arg(long, value_name = "DEVICE")]
    pub(crate) device: Option<String>,
    /// An address of HNLB's own on that link, with its prefix length; may be given
    /// several times.
    #[arg(long = "address", value_name = "ADDRESS/LENGTH")]
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
    pub(crate) vip: Option<SocketAddr>,
    /// The transport protocol.
    #[arg(long, value_enum, default_value = "tcp")]
    pub(crate) protocol: flow::Transport,
    /// How packets reach the backends.
    #[arg(long, value_enum, default_value = "nat")]
    pub(crate) mode: flow::Mode,
    /// Check the backends' health: tcp, http, https, icmp or grpc.
    #[arg(long, value_enum, value_name = "CHECK")]
    pub(crate) check: Option<flow::Check>,
    /// A server, by default at the port of the VIP; may be given several times.
    #[arg(long = "backend", value_name = "ADDRESS[:PORT]")]
    pub(crate) backends: Vec<String>,
    /// Write the configuration into this file, which must not be there yet [default:
    /// standard output].
    #[arg(long, value_name = "FILE")]
    pub(crate) out: Option<PathBuf>,
    /// Print the configuration, the file and the warnings as JSON.
    #[arg(long)]
    pub(crate) json: bool,
}
