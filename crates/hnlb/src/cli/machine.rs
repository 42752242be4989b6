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
