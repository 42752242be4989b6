//! `hnlb api`: the process that serves the control API; `hnlb run` starts it.
use std::io;
use std::os::fd::AsFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::process::ExitCode;

use crate::CommandResult;
use crate::cli::ApiArgs;

/// Serves on the listener that is standard output, for the load balancer at the other
/// end of standard input.
pub(crate) fn run(args: &ApiArgs) -> CommandResult {
    let link = UnixStream::from(io::stdin().as_fd().try_clone_to_owned()?);
    let listener = UnixListener::from(io::stdout().as_fd().try_clone_to_owned()?);
    let is_ours = link.peer_addr().is_ok() && listener.local_addr().is_ok();
    if !is_ours {
        return Err("`hnlb run` starts this command with its sockets; it is not for users".into());
    }
    let api = config::Api {
        listen: args.listen,
        certificate: args.certificate.clone(),
        key: args.key.clone(),
        tokens: args.tokens.clone(),
        names: args.names.clone(),
    };
    api::serve(link, listener, api::Settings { owner: args.owner, api })?;
    Ok(ExitCode::SUCCESS)
}
