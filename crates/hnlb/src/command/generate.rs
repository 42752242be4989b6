//! `hnlb man` and `hnlb completions`: what packages have beside the program, made
//! from the same definitions as `hnlb help`.
use std::path::Path;
use std::process::ExitCode;

use clap_complete::Shell;

use crate::cli;
use crate::{CommandResult, output};

/// A man page for each command, in `directory`.
pub(crate) fn man(directory: &Path) -> CommandResult {
    clap_mangen::generate_to(cli::command(), directory)
        .map_err(|error| format!("write man pages into {}: {error}", directory.display()))?;
    Ok(ExitCode::SUCCESS)
}

/// The completions of `shell`, on standard output.
pub(crate) fn completions(shell: Shell) -> CommandResult {
    let mut text = Vec::new();
    clap_complete::generate(shell, &mut cli::command(), "hnlb", &mut text);
    output::print(&String::from_utf8_lossy(&text))?;
    Ok(ExitCode::SUCCESS)
}
