//! `hnlb keys`: the process that has the private keys; `hnlb run` starts it.
use std::io;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::process::ExitCode;

use crate::{CommandResult, secrecy};

/// Serves the load balancer at the other end of standard input.
pub(crate) fn run() -> CommandResult {
    let link = UnixStream::from(io::stdin().as_fd().try_clone_to_owned()?);
    if link.peer_addr().is_err() {
        return Err("`hnlb run` starts this command with its socket; it is not for users".into());
    }
    secrecy::withdraw();
    tls::serve_keys(&link)?;
    Ok(ExitCode::SUCCESS)
}
