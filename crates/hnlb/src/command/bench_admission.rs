//! `hnlb bench admission`: who gets the entries of a card.
use std::process::ExitCode;

use measure::admission::{Options, run as measure};

use super::bench::counted;
use crate::cli::BenchAdmissionArgs;
use crate::{CommandError, CommandResult, output};

pub(crate) fn run(args: &BenchAdmissionArgs) -> CommandResult {
    for &packets_per_second in &args.packets {
        let options = Options {
            connections: args.connections,
            entries: args.entries,
            insertions_per_second: args.insertions,
            packets_per_second,
            alphas: args.alphas.clone(),
            seeds: (1..=args.seeds).collect(),
            ..Options::default()
        };
        one(&options, args.json)?;
    }
    Ok(ExitCode::SUCCESS)
}

fn one(options: &Options, json: bool) -> Result<(), CommandError> {
    let outcome = measure(options, &mut counted()?)?;
    if !json {
        output::print(&(outcome.page() + "\n"))?;
        return Ok(());
    }
    for row in &outcome.rows {
        output::print(&(serde_json::to_string(row)? + "\n"))?;
    }
    Ok(())
}
