//! Changes of a running load balancer: `hnlb backend`, `config`, `reload`, `diff`.
use std::path::PathBuf;

use clap::{Args, Subcommand};

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
