//! `hnlb check` and `hnlb schema`.
use std::process::ExitCode;

use config::Config;

use crate::CommandResult;
use crate::cli::CheckArgs;

pub(crate) fn run(args: &CheckArgs) -> CommandResult {
    let config = Config::load(&args.file)?;
    for warning in config.warnings() {
        eprintln!("warning: {warning}");
    }
    println!("{}: good", args.file.display());
    Ok(ExitCode::SUCCESS)
}

pub(crate) fn schema() -> CommandResult {
    println!("{}", serde_json::to_string_pretty(&Config::json_schema())?);
    Ok(ExitCode::SUCCESS)
}
