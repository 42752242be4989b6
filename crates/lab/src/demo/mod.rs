//! The demo: one lab, HNLB in it with each encoding in turn, the same load
//! each time, and what came out side by side.

mod run;
mod table;

use std::path::Path;

use flow::Mode;
pub use run::RunReport;

use crate::column::Column;
use crate::progress::Progress;
use crate::{Lab, LabError, LabOptions, Stop};

/// Workers of HNLB: both directions of a connection may come in on different ones.
const WORKERS: u16 = 2;

/// Runs the demo in `mode` with HNLB's program at `binary` and each of
/// `columns`, the columns of the table; prints progress to stderr
/// and the table to stdout. True if nothing failed.
///
/// # Errors
/// If the lab cannot be set up, HNLB doesn't start, or the stop is requested.
/// The lab is gone in any case.
pub fn run(binary: &Path, stop: &Stop, mode: Mode, columns: &[Column]) -> Result<bool, LabError> {
    let progress = Progress::new("demo", 1 + columns.len() * run::STEPS);
    progress.step("setting up 9 network namespaces, 4 nginx, 4 nsd");
    let mut lab = Lab::up(LabOptions { stop: stop.clone(), ..LabOptions::default() })?;
    let opener = lab.open_tunnels(mode)?;
    let mut reports = Vec::new();
    for &column in columns {
        let how = column.run(mode, WORKERS);
        reports.push(run::run(&mut lab, binary, column, &how, &progress)?);
    }
    lab.down()?;
    progress.done();
    println!("mode {}; {}\n", mode.name(), opener.name());
    print!("{}", table::render(&reports));
    let failures: Vec<String> = reports.iter().flat_map(RunReport::failures).collect();
    for failure in &failures {
        println!("FAILED  {failure}");
    }
    if failures.is_empty() {
        println!("nothing failed");
    }
    Ok(failures.is_empty())
}
