//! Which VIPs routers are told of: `hnlb announce`, `drain`, `restore`.
use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};

/// `hnlb announce`
#[derive(Debug, Subcommand)]
pub(crate) enum AnnounceCommand {
    /// Show which VIPs a running load balancer announces, and why not the others.
    Show(AnnounceShowArgs),
    /// Print the configuration of BIRD or keepalived for the [announce] of a configuration
    /// file.
    Render(RenderArgs),
}

/// `hnlb announce show`
#[derive(Debug, Args)]
pub(crate) struct AnnounceShowArgs {
    /// The status socket, as in `[status] socket` of the configuration.
    #[arg(long, value_name = "PATH", default_value = "/run/hnlb/hnlb.sock")]
    pub(crate) socket: PathBuf,
    /// Print the answer as JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

/// `hnlb announce render`
#[derive(Debug, Args)]
pub(crate) struct RenderArgs {
    /// The program.
    #[arg(value_enum, value_name = "PROGRAM")]
    pub(crate) program: Renderer,
    /// The configuration file (TOML).
    #[arg(long, value_name = "FILE", default_value = "/etc/hnlb/hnlb.toml")]
    pub(crate) config: PathBuf,
    /// Print an object of JSON with the program and the text.
    #[arg(long)]
    pub(crate) json: bool,
}

/// A program that tells routers of VIPs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Renderer {
    /// BIRD 2, by BGP: every load balancer announces the VIPs ([announce.bgp]).
    Bird,
    /// keepalived, by VRRP: addresses move to one of the load balancers ([announce.vrrp]).
    Keepalived,
}

/// `hnlb drain` and `hnlb restore`
#[derive(Debug, Args)]
pub(crate) struct DrainArgs {
    /// The whole load balancer; `hnlb backend` has the same for one backend.
    #[arg(long, required = true)]
    pub(crate) all: bool,
    /// The status socket, as in `[status] socket` of the configuration.
    #[arg(long, value_name = "PATH", default_value = "/run/hnlb/hnlb.sock")]
    pub(crate) socket: PathBuf,
    /// Print the answer as JSON.
    #[arg(long)]
    pub(crate) json: bool,
}
