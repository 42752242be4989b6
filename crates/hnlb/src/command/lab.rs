//! `hnlb lab`: the lab of network namespaces, and the demo in it.
use std::process::ExitCode;

use lab::LabCommand;

use crate::CommandResult;

pub(crate) fn run(command: LabCommand) -> CommandResult {
    let binary = std::env::current_exe()?;
    let fine = command.run(&binary)?;
    Ok(if fine { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
