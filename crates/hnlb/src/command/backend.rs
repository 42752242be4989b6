//! `hnlb backend`: backends of stateless services are drained and come back.
use std::process::ExitCode;

use dataplane::control::{self, Steered};

use crate::cli::{BackendArgs, BackendCommand};
use crate::{CommandResult, output};

pub(crate) fn run(command: &BackendCommand) -> CommandResult {
    match command {
        BackendCommand::Drain(args) => steer(args, true),
        BackendCommand::Restore(args) => steer(args, false),
    }
}

fn steer(args: &BackendArgs, drain: bool) -> CommandResult {
    let text = control::steer(&args.socket, &args.service, args.backend, drain)?;
    let done: Steered = serde_json::from_str(&text)?;
    if let Some(error) = done.error {
        return Err(error.into());
    }
    if args.json {
        output::print(&(text + "\n"))?;
        return Ok(ExitCode::SUCCESS);
    }
    let what = if drain { "drained" } else { "serves again" };
    output::print(&format!(
        "{} of {} {what}: {:.2} % of the clients move, {} entries instead of {}\n",
        args.backend,
        args.service,
        done.moved * 100.0,
        done.entries_after,
        done.entries_before
    ))?;
    Ok(ExitCode::SUCCESS)
}
