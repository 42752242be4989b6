//! `hnlb backend`: backends are drained and come back.
use std::process::ExitCode;

use api::{AskError, BackendBody, Client, WeightBody};
use control::{Changed, Steered};

use crate::cli::{BackendAddArgs, BackendArgs, BackendCommand};
use crate::{CommandResult, output};

pub(crate) fn run(command: &BackendCommand) -> CommandResult {
    match command {
        BackendCommand::Drain(args) => steer(args, true),
        BackendCommand::Restore(args) => steer(args, false),
        BackendCommand::Add(args) => {
            let backup = args.backup.then_some(true);
            let BackendAddArgs { port, weight, .. } = *args;
            let body = BackendBody { port, weight, backup, server_ids: None };
            change(&args.backend, |client, path| client.put(path, &body))
        }
        BackendCommand::Weight(args) => {
            let body = WeightBody { weight: args.weight };
            change(&args.backend, |client, path| client.put(&[path, &["weight"]].concat(), &body))
        }
        BackendCommand::Remove(args) => change(args, Client::delete),
    }
}

/// Changes what is at the backend's path by `ask`.
fn change(
    args: &BackendArgs,
    ask: impl FnOnce(&Client, &[&str]) -> Result<Changed, AskError>,
) -> CommandResult {
    let backend = args.backend.to_string();
    let path = ["v1", "services", &args.service, "backends", &backend];
    let done = ask(&Client::new(&args.socket), &path)?;
    if args.json {
        output::print(&(serde_json::to_string(&done)? + "\n"))?;
        return Ok(ExitCode::SUCCESS);
    }
    for warning in &done.warnings {
        eprintln!("warning: {warning}");
    }
    let steps: String = done.steps.iter().map(|step| format!("{step}\n")).collect();
    let nothing = "nothing to change\n".to_owned();
    output::print(if steps.is_empty() { &nothing } else { &steps })?;
    Ok(ExitCode::SUCCESS)
}

fn steer(args: &BackendArgs, drain: bool) -> CommandResult {
    let BackendArgs { service, backend, socket, .. } = args;
    let (backend, verb) = (backend.to_string(), if drain { "drain" } else { "restore" });
    let path = ["v1", "services", service, "backends", &backend, verb];
    let done: Steered = Client::new(socket).post(&path, &())?;
    if args.json {
        output::print(&(serde_json::to_string(&done)? + "\n"))?;
        return Ok(ExitCode::SUCCESS);
    }
    let what = if drain { "drained" } else { "serves again" };
    let effect = match (done.connections, drain) {
        (None, _) => format!(
            "{:.2} % of the clients move, {} entries instead of {}",
            done.moved * 100.0,
            done.entries_after,
            done.entries_before
        ),
        (Some(open), true) => format!("no new connections, {open} open ones stay"),
        (Some(open), false) => format!("new connections, {open} are open"),
    };
    let left = if done.serving == 0 { "; no backend is left, clients are refused" } else { "" };
    output::print(&format!("{} of {} {what}: {effect}{left}\n", args.backend, args.service))?;
    Ok(ExitCode::SUCCESS)
}
