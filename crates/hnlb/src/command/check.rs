//! `hnlb check` and `hnlb schema`.
use std::process::ExitCode;

use config::Config;
use control::Problem;
use serde_json::json;

use crate::cli::CheckArgs;
use crate::{CommandResult, output};

pub(crate) fn run(args: &CheckArgs) -> CommandResult {
    let checked = Config::load_with_warnings(&args.file);
    if args.json {
        let (errors, warnings) = match &checked {
            Ok((_, warnings)) => (Vec::new(), warnings.iter().map(Problem::from).collect()),
            Err(errors) => (errors.iter().map(Problem::from).collect::<Vec<_>>(), Vec::new()),
        };
        let json = json!({ "good": checked.is_ok(), "errors": errors, "warnings": warnings });
        output::print(&format!("{json}\n"))?;
        return Ok(if checked.is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE });
    }
    let (_, warnings) = checked?;
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
