//! `hnlb check` and `hnlb schema`.
use std::process::ExitCode;

use config::Config;

use crate::cli::CheckArgs;
use crate::{CommandResult, output};

pub(crate) fn run(args: &CheckArgs) -> CommandResult {
    let (_, warnings) = Config::load_with_warnings(&args.file)?;
    for warning in warnings {
        eprintln!("warning: {warning}");
    }
    output::print(&format!("{}: good\n", args.file.display()))?;
    Ok(ExitCode::SUCCESS)
}

pub(crate) fn schema() -> CommandResult {
    output::print(&(serde_json::to_string_pretty(&Config::json_schema())? + "\n"))?;
    Ok(ExitCode::SUCCESS)
}
