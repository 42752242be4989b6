//! `hnlb bench laslb`: the evaluation of the LASLB thesis.
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

use measure::laslb::{Hash, Options, ServiceTimes, run as simulate};
use measure::report::{Machine, laslb_text, write_laslb};

use super::bench::counted;
use crate::cli::BenchLaslbArgs;
use crate::{CommandError, CommandResult, output};

pub(crate) fn run(args: &BenchLaslbArgs) -> CommandResult {
    let mut options = Options::new(args.quick);
    options.draws = args.draws.unwrap_or(options.draws);
    if args.thesis_hash {
        options.hash = Hash::Thesis;
    }
    if let Some(file) = &args.service {
        options.service = Some(Arc::new(service_times(file)?));
    }
    let rows = simulate(&options, &mut counted()?)?;
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

fn service_times(file: &Path) -> Result<ServiceTimes, CommandError> {
    let named = |error: String| format!("{}: {error}", file.display());
    let text = std::fs::read_to_string(file).map_err(|error| named(error.to_string()))?;
    let times: ServiceTimes =
        serde_json::from_str(&text).map_err(|error| named(error.to_string()))?;
    if !times.is_whole() {
        let what = "it lacks an application or its times; `hnlb-ndpi record` writes such files";
        return Err(named(what.to_owned()).into());
    }
    Ok(times)
}
