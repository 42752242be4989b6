//! `hnlb config`: the configuration in force and its file.
use std::process::ExitCode;

use api::{Client, Saved};

use crate::cli::ConfigCommand;
use crate::{CommandResult, output};

pub(crate) fn run(command: &ConfigCommand) -> CommandResult {
    let ConfigCommand::Save(args) = command;
    let done: Saved = Client::new(&args.socket).post(&["v1", "config", "save"], &())?;
    let file = done.file.display();
    output::print(&match (args.json, done.changed) {
        (true, _) => serde_json::to_string(&done)? + "\n",
        (false, true) => format!("{file}: saved\n"),
        (false, false) => format!("{file}: it says what is in force already\n"),
    })?;
    Ok(ExitCode::SUCCESS)
}
