//! `hnlb reload` and `hnlb diff`: the configuration is read again.
use std::process::ExitCode;

use api::{Client, ReloadBody};
use control::Reloaded;

use crate::cli::ReloadArgs;
use crate::{CommandResult, output};

pub(crate) fn run(args: &ReloadArgs, dry_run: bool) -> CommandResult {
    // The load balancer may run in another directory.
    let file = args.config.as_ref().map(std::path::absolute).transpose()?;
    let body = ReloadBody { file, dry_run };
    let done: Reloaded = Client::new(&args.socket).post(&["v1", "reload"], &body)?;
    let code = if done.restart.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE };
    if args.json {
        output::print(&(serde_json::to_string(&done)? + "\n"))?;
        return Ok(code);
    }
    let mut page = String::new();
    for line in done.warnings.iter().map(|warning| format!("warning: {warning}\n")) {
        page += &line;
    }
    for step in &done.steps {
        page += &format!("{step}\n");
    }
    for problem in &done.restart {
        page += &format!("{problem}\n");
    }
    let file = done.file.display();
    page += &match (done.steps.is_empty(), dry_run) {
        _ if !done.restart.is_empty() => {
            format!("{file}: a reload would be refused: the keys above need a restart\n")
        }
        (true, _) => format!("{file}: running already\n"),
        (false, true) => format!("{file}: nothing was changed\n"),
        (false, false) => format!("{file}: running now\n"),
    };
    output::print(&page)?;
    Ok(code)
}
