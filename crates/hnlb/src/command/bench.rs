//! `hnlb bench`: measurements.
use std::process::ExitCode;

use bench::table::{self, Options};

use crate::CommandResult;
use crate::cli::{BenchCommand, BenchTableArgs};

pub(crate) fn run(command: BenchCommand) -> CommandResult {
    match command {
        BenchCommand::Table(args) => table(args),
    }
}

fn table(args: BenchTableArgs) -> CommandResult {
    let BenchTableArgs { sizes, threads, quick, out, json } = args;
    let outcome = table::run(&Options { sizes, threads, quick, out })?;
    if json {
        for row in &outcome.rows {
            println!("{}", serde_json::to_string(row)?);
        }
    } else {
        print!("{}", outcome.page());
    }
    Ok(ExitCode::SUCCESS)
}
