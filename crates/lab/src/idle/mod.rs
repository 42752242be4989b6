//! What HNLB costs while nothing happens, thread by thread, and how much later the first
//! packet after a pause is answered.
mod run;
mod threads;

use std::path::Path;

use serde::Serialize;

use crate::{LabError, Stop};

use self::threads::ThreadRow;

/// How the measurement is run.
#[derive(Debug, Clone)]
pub(crate) struct Options {
    /// Seconds for which nothing happens.
    pub(crate) seconds: u64,
    /// Round trips after a pause each.
    pub(crate) count: u32,
    /// A JSON object a row on stdout instead of the table.
    pub(crate) json: bool,
}

/// HNLB with one setting of `[workers] idle`.
#[derive(Debug, Clone, Serialize)]
struct Row {
    idle: &'static str,
    /// Percent of a core, all threads together.
    percent: f64,
    threads: Vec<ThreadRow>,
    /// Naps of the worker in the time, and polls of its queues.
    naps: u64,
    polls: u64,
    /// Round trips after a pause, in microseconds: half of them, and 99 of 100, are shorter.
    first_packet_us: Option<[f64; 2]>,
    lost: u64,
}

/// Runs HNLB's program at `binary` with each setting; prints the rows. True if each round trip
/// came back.
///
/// # Errors
/// If the lab cannot be set up, HNLB doesn't start, or the stop is requested. The lab is gone
/// in any case.
pub(crate) fn run(binary: &Path, stop: &Stop, options: &Options) -> Result<bool, LabError> {
    let mut lost = 0;
    for idle in ["yield", "spin"] {
        eprintln!("idle: {idle}");
        let row = run::one(binary, stop, idle, options)?;
        lost += row.lost;
        if options.json {
            let text = serde_json::to_string(&row);
            println!("{}", text.map_err(|error| bad(&error.to_string()))?);
        } else {
            print!("{}", table(&row));
        }
    }
    Ok(lost == 0)
}

fn bad(detail: &str) -> LabError {
    LabError::Parse { tool: "the measurement", detail: detail.to_owned() }
}

fn table(row: &Row) -> String {
    let mut text = format!(
        "idle = \"{}\": {:.1} % of a core; the worker napped {} times for {} polls\n",
        row.idle, row.percent, row.naps, row.polls
    );
    if let Some([half, most]) = row.first_packet_us {
        text += &format!(
            "first packet after a pause: p50 {half:.0} us, p99 {most:.0} us, {} lost\n",
            row.lost
        );
    }
    text += &format!("  {:<16} {:>8} {:>10}\n", "thread", "core %", "wakes/s");
    for ThreadRow { name, percent, wakes } in &row.threads {
        text += &format!("  {name:<16} {percent:>8.2} {wakes:>10.0}\n");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_has_a_line_for_each_thread() {
        let thread = |name: &str| ThreadRow { name: name.to_owned(), percent: 1.25, wakes: 250.0 };
        let row = Row {
            idle: "yield",
            percent: 2.5,
            threads: vec![thread("keeper"), thread("worker0")],
            naps: 7,
            polls: 8,
            first_packet_us: Some([120.0, 300.4]),
            lost: 0,
        };
        let text = table(&row);
        assert_eq!(text.lines().count(), 5);
        assert!(text.contains("p50 120 us, p99 300 us, 0 lost"));
        assert!(text.contains("keeper               1.25        250"), "{text}");
    }
}
