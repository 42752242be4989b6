//! `hnlb bench laslb`: the evaluation of the LASLB thesis.
use std::process::ExitCode;

use measure::laslb::{Options, run as simulate};
use measure::report::{Machine, laslb_text, write_laslb};

use super::bench::counted;
use crate::cli::BenchLaslbArgs;
use crate::{CommandResult, output};

pub(crate) fn run(args: &BenchLaslbArgs) -> CommandResult {
    let mut options = Options::new(args.quick);
    options.draws = args.draws.unwrap_or(options.draws);
    let rows = simulate(options, &mut counted()?)?;
    if args.json {
        for row in &rows {
            output::print(&(serde_json::to_string(row)? + "\n"))?;
        }
    } else {
        output::print(&laslb_text(&rows))?;
    }
    if let Some(dir) = &args.out {
        let machine = Machine::this(&dpdk::eal::version());
        for file in write_laslb(dir, &machine, &rows)? {
            eprintln!("{}", file.display());
        }
    }
    Ok(ExitCode::SUCCESS)
}
