//! `hnlb bench http --tls`: what TLS costs HNLB, HAProxy and nginx.
use std::process::ExitCode;

use lab::Stop;
use lab::https_bench::{Options, Row, run as measure};
use measure::report::{HttpsRow, Machine, https_text, write_https};

use crate::cli::BenchHttpArgs;
use crate::{CommandResult, output};

pub(crate) fn run(args: &BenchHttpArgs) -> CommandResult {
    let BenchHttpArgs { quick, rounds, ref out, json, .. } = *args;
    let options = Options { quick, rounds: rounds.unwrap_or(if quick { 1 } else { 3 }) };
    let mut tell = |measured: &Row| {
        let line = serde_json::to_string(&row(measured)).unwrap_or_default();
        if json {
            // A reader that has gone is noticed at the end.
            let _ = output::print(&(line + "\n"));
        }
    };
    let measured = measure(&std::env::current_exe()?, &Stop::on_signals()?, &options, &mut tell)?;
    let rows: Vec<HttpsRow> = measured.iter().map(row).collect();
    if !json {
        output::print(&https_text(&rows))?;
    }
    if let Some(dir) = out {
        for file in write_https(dir, &Machine::this(&dpdk::eal::version()), &rows)? {
            eprintln!("{}", file.display());
        }
    }
    let failed: u64 = rows.iter().map(|row| row.failed).sum();
    if failed > 0 {
        eprintln!("hnlb: {failed} requests or handshakes failed");
    }
    Ok(if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn row(measured: &Row) -> HttpsRow {
    let cpu_us = measured.cpu_us;
    HttpsRow {
        system: measured.system.name().to_owned(),
        what: measured.what.name().to_owned(),
        bytes: measured.bytes,
        per_s: measured.per_s,
        cpu_us,
        per_core_s: if cpu_us > 0.0 { 1e6 / cpu_us } else { 0.0 },
        flood_per_s: measured.flood_per_s,
        p50_us: measured.p50_us,
        p99_us: measured.p99_us,
        p999_us: measured.p999_us,
        failed: measured.failed,
    }
}
