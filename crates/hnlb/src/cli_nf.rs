//! The commands and flags of `hnlb nf`.
use std::path::PathBuf;

use clap::{Args, Subcommand};
use middlebox::Attachment;

/// `hnlb nf`
#[derive(Debug, Subcommand)]
pub(crate) enum NfCommand {
    /// Run a middlebox server until Ctrl-C or SIGTERM: frames of paired ports go through
    /// instances of a network function.
    Run(NfRunArgs),
    /// Check a middlebox server's configuration.
    Check(NfCheckArgs),
    /// Show a running middlebox server.
    Status(NfStatusArgs),
    /// Run a network function of known work at an attachment until Ctrl-C or SIGTERM.
    Function(NfFunctionArgs),
}

/// `hnlb nf run`
#[derive(Debug, Args)]
pub(crate) struct NfRunArgs {
    /// The configuration file (TOML).
    #[arg(long, value_name = "FILE")]
    pub(crate) config: PathBuf,
}

/// `hnlb nf check`
#[derive(Debug, Args)]
pub(crate) struct NfCheckArgs {
    /// The configuration file (TOML).
    #[arg(long, value_name = "FILE")]
    pub(crate) config: PathBuf,
    /// Print what the configuration has as JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

/// `hnlb nf status`
#[derive(Debug, Args)]
pub(crate) struct NfStatusArgs {
    /// The server's status socket.
    #[arg(long, value_name = "SOCKET", default_value = "/run/hnlb/nf.status")]
    pub(crate) socket: PathBuf,
    /// Print one JSON object.
    #[arg(long)]
    pub(crate) json: bool,
}

/// `hnlb nf function`
#[derive(Debug, Args)]
pub(crate) struct NfFunctionArgs {
    /// The attachment, as it is in the server's configuration.
    #[arg(long, value_name = "ATTACHMENT")]
    pub(crate) attach: Attachment,
    /// Cycles of work for each packet; none: a plain forwarder.
    #[arg(long, value_name = "CYCLES", default_value_t = 0)]
    pub(crate) cycles_per_packet: u32,
    /// Thousandths of a cycle of work for each byte.
    #[arg(long, value_name = "MILLICYCLES", default_value_t = 0)]
    pub(crate) millicycles_per_byte: u32,
    /// Drop every n-th frame; 0: none.
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) drop_every: u32,
    /// Take memory from huge pages only.
    #[arg(long)]
    pub(crate) huge_pages: bool,
}
