//! Packets one by one: `hnlb capture`, `explain`, `replay`.
use std::path::PathBuf;

use clap::Args;
use flow::{CardProfile, Encoding};

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
