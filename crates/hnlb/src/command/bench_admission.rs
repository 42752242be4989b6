//! `hnlb bench admission`: who gets the entries of a card.
use std::process::ExitCode;

use measure::admission::{Options, run as measure};

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
    let bar = indicatif::ProgressBar::new(0).with_style(indicatif::ProgressStyle::with_template(
        "{bar:40} {pos}/{len} runs, {eta} left",
    )?);
    let outcome = measure(options, &mut |done, of| {
        bar.set_length(of as u64);
        bar.set_position(done as u64);
    })?;
    bar.finish_and_clear();
    if !json {
        output::print(&(outcome.page() + "\n"))?;
        return Ok(());
    }
    for row in &outcome.rows {
        output::print(&(serde_json::to_string(row)? + "\n"))?;
    }
    Ok(())
}
