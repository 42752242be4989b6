//! `hnlb bench crypto`: the work of TLS.
use std::process::ExitCode;

use measure::crypto::{Options, crypto_text, run as measure, write_crypto};
use measure::report::Machine;

use super::bench::counted;
use crate::cli::BenchCryptoArgs;
use crate::{CommandResult, output};

pub(crate) fn run(args: &BenchCryptoArgs) -> CommandResult {
    let BenchCryptoArgs { quick, ordinary_pages, ref out, json } = *args;
    let outcome = measure(Options { quick, ordinary_pages }, &mut counted()?)?;
    if json {
        for row in &outcome.rows {
            output::print(&(serde_json::to_string(row)? + "\n"))?;
        }
    } else {
        output::print(&crypto_text(&outcome))?;
    }
    if let Some(dir) = out {
        for file in write_crypto(dir, &Machine::this(&dpdk::eal::version()), &outcome)? {
            eprintln!("{}", file.display());
        }
    }
    Ok(ExitCode::SUCCESS)
}
