//! `hnlb bench http`: what a request costs HNLB, HAProxy and nginx.
use std::process::ExitCode;

use lab::Stop;
use lab::http_bench::{Options, Row, run as measure};
use measure::report::{HttpRow, Machine, http_text, write_http};

use crate::cli::BenchHttpArgs;
use crate::{CommandResult, output};

pub(crate) fn run(args: &BenchHttpArgs) -> CommandResult {
    let BenchHttpArgs { quick, rounds, xdp, ref out, json, .. } = *args;
    let options = Options { quick, rounds: rounds.unwrap_or(if quick { 1 } else { 3 }), xdp };
    let mut tell = |measured: &Row| {
        let line = serde_json::to_string(&row(measured).line()).unwrap_or_default();
        if json {
            // A reader that has gone is noticed at the end.
            let _ = output::print(&(line + "\n"));
        }
    };
    let measured = measure(&std::env::current_exe()?, &Stop::on_signals()?, &options, &mut tell)?;
    let rows: Vec<HttpRow> = measured.iter().map(row).collect();
    if !json {
        output::print(&http_text(&rows))?;
    }
    if let Some(dir) = out {
        for file in write_http(dir, &Machine::this(&dpdk::eal::version()), &rows)? {
            eprintln!("{}", file.display());
        }
    }
    let failed: u64 = rows.iter().map(|row| row.failed).sum();
    if failed > 0 {
        eprintln!("hnlb: {failed} requests failed");
    }
    Ok(if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn row(measured: &Row) -> HttpRow {
    HttpRow {
        system: measured.system.name().to_owned(),
        bytes: measured.bytes,
        keepalive: measured.keepalive,
        insert: measured.system.inserts(),
        requests_per_s: measured.requests_per_s,
        cpu_us_per_request: measured.cpu_us_per_request,
        system_us_per_request: measured.system_us_per_request,
        p50_us: measured.p50_us,
        p99_us: measured.p99_us,
        p999_us: measured.p999_us,
        failed: measured.failed,
    }
}
