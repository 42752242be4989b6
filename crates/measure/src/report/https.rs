//! What TLS costs HNLB, HAProxy and nginx: rows, goals and a page.
use std::path::{Path, PathBuf};

use maud::html;
use serde::{Deserialize, Serialize};

use crate::report::columns::{Cell, Column, Table};
use crate::report::html::{document, section};
use crate::report::run::write_all;
use crate::report::{Estimate, Machine, ReportError};

/// One load on one system.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct HttpsRow {
    /// `hnlb`, `haproxy` or `nginx`.
    pub system: String,
    /// `handshake-full`, `handshake-resumed`, `requests`, or `flood`: requests on
    /// established connections beside clients that do nothing but handshakes.
    pub what: String,
    /// Bytes of each response's body.
    pub bytes: usize,
    /// Handshakes or requests a second.
    pub per_s: f64,
    /// Processor time of the balancer for each, in microseconds.
    pub cpu_us: f64,
    /// How many of them one core does in a second: a second of processor time by the time
    /// of each.
    pub per_core_s: f64,
    /// Handshakes of the flood in a second.
    pub flood_per_s: f64,
    /// Median of the time to an answer, in microseconds.
    pub p50_us: u64,
    /// Its 99th percentile.
    pub p99_us: u64,
    /// Its 99.9th percentile.
    pub p999_us: u64,
    /// Requests that failed, and handshakes that should have resumed a session and did not.
    pub failed: u64,
}

const NOTE: &str = "All systems end TLS with the same certificate (ECDSA P-256) and add the same \
    fields to requests; clients choose TLS 1.3. HAProxy and nginx have one thread for handshakes, \
    records and requests, and are charged with the processor time of their process. HNLB does \
    handshakes in a thread and records in another beside its worker, and is charged with util+ of \
    the worker and all time of the two threads, also where they find nothing to do; the emulated \
    NIC and the kernel's soft interrupts are not counted. On a machine with fewer cores than \
    threads all times depend on who gets a core when.";

/// The proxies that HNLB is measured beside.
const OTHERS: [&str; 2] = ["haproxy", "nginx"];

/// What is compared: of which rows, by which number, and the part of the other's that HNLB
/// shall have.
struct Goal {
    name: &'static str,
    what: &'static str,
    value: fn(&HttpsRow) -> f64,
    bound: Bound,
}

#[derive(Clone, Copy)]
enum Bound {
    AtLeast(f64),
    AtMost(f64),
}

impl Bound {
    const fn holds(self, part: f64) -> bool {
        match self {
            Self::AtLeast(bound) => part >= bound,
            Self::AtMost(bound) => part <= bound,
        }
    }

    fn text(self) -> String {
        match self {
            Self::AtLeast(bound) => format!("at least {bound}"),
            Self::AtMost(bound) => format!("at most {bound}"),
        }
    }
}

#[allow(clippy::cast_precision_loss)]
const GOALS: [Goal; 4] = [
    Goal {
        name: "full handshakes, second and core",
        what: "handshake-full",
        value: |row| row.per_core_s,
        bound: Bound::AtLeast(0.9),
    },
    Goal {
        name: "resumed handshakes, second and core",
        what: "handshake-resumed",
        value: |row| row.per_core_s,
        bound: Bound::AtLeast(0.9),
    },
    Goal {
        name: "processor time of a request",
        what: "requests",
        value: |row| row.cpu_us,
        bound: Bound::AtMost(0.7),
    },
    Goal {
        name: "p99 during a flood",
        what: "flood",
        value: |row| row.p99_us as f64,
        bound: Bound::AtMost(0.2),
    },
];

/// HNLB's number as a part of another system's.
struct Ratio {
    name: &'static str,
    bytes: usize,
    other: &'static str,
    part: f64,
    bound: Bound,
}

fn ratios(rows: &[HttpsRow]) -> Vec<Ratio> {
    let mut sizes: Vec<usize> = rows.iter().map(|row| row.bytes).collect();
    sizes.sort_unstable();
    sizes.dedup();
    let mut all = Vec::new();
    for Goal { name, what, value, bound } in GOALS {
        for &bytes in &sizes {
            let median = |system: &str| {
                let own = |row: &&HttpsRow| {
                    row.system == system && row.what == what && row.bytes == bytes
                };
                let values: Vec<f64> = rows.iter().filter(own).map(value).collect();
                Estimate::of(&values).map(|own| own.median)
            };
            let Some(own) = median("hnlb") else { continue };
            for other in OTHERS {
                if let Some(theirs) = median(other).filter(|own| *own > 0.0) {
                    all.push(Ratio { name, bytes, other, part: own / theirs, bound });
                }
            }
        }
    }
    all
}

fn goal_table(rows: &[HttpsRow]) -> Table {
    let columns: [Column<'_, Ratio>; 6] = [
        ("What", &|row| row.name.into()),
        ("Bytes", &|row| Cell::count(row.bytes)),
        ("Beside", &|row| row.other.into()),
        ("HNLB's part", &|row| Cell::number(row.part, 3)),
        ("Goal", &|row| row.bound.text().into()),
        ("", &|row| (if row.bound.holds(row.part) { "met" } else { "missed" }).into()),
    ];
    Table::of("HNLB beside the others", ratios(rows), &columns)
}

fn row_table(rows: &[HttpsRow]) -> Table {
    let columns: [Column<'_, &HttpsRow>; 11] = [
        ("System", &|row| row.system.as_str().into()),
        ("What", &|row| row.what.as_str().into()),
        ("Bytes", &|row| Cell::count(row.bytes)),
        ("Per second", &|row| Cell::number(row.per_s, 0)),
        ("µs of processor", &|row| Cell::number(row.cpu_us, 2)),
        ("Per second and core", &|row| Cell::number(row.per_core_s, 0)),
        ("Flood/s", &|row| Cell::number(row.flood_per_s, 0)),
        ("p50, µs", &|row| Cell::count(row.p50_us)),
        ("p99, µs", &|row| Cell::count(row.p99_us)),
        ("p99.9, µs", &|row| Cell::count(row.p999_us)),
        ("Failed", &|row| Cell::count(row.failed)),
    ];
    Table::of("All loads", rows, &columns)
}

/// All rows and the goals for a terminal.
#[must_use]
pub fn https_text(rows: &[HttpsRow]) -> String {
    format!("{NOTE}\n{}\n{}", row_table(rows).text(), goal_table(rows).text())
}

/// Writes `https.json` and `https.html` into `dir`, which is made if it isn't there.
/// Returns their paths, the page last.
///
/// # Errors
/// [`ReportError`], with the file.
pub fn write_https(
    dir: &Path,
    machine: &Machine,
    rows: &[HttpsRow],
) -> Result<Vec<PathBuf>, ReportError> {
    let all = serde_json::json!({ "note": NOTE, "machine": machine, "rows": rows });
    let body = html! {
        h1 { "TLS" }
        p.note { (NOTE) }
        (section("Goals", &goal_table(rows).html()))
        (section("Rows", &row_table(rows).html()))
        (section("Machine", &html! {
            @for (name, value) in machine.lines() { p { (name) ": " (value) } }
        }))
    };
    let files = vec![
        ("https.json".to_owned(), serde_json::to_string_pretty(&all)? + "\n"),
        ("https.html".to_owned(), document("HNLB: TLS", &body)),
    ];
    write_all(dir, files)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(system: &str, what: &str, bytes: usize, number: f64) -> HttpsRow {
        HttpsRow {
            system: system.to_owned(),
            what: what.to_owned(),
            bytes,
            per_core_s: number,
            cpu_us: number,
            p99_us: number as u64,
            ..HttpsRow::default()
        }
    }

    #[test]
    fn each_goal_looks_at_its_own_rows() {
        let rows = [
            row("hnlb", "handshake-full", 0, 95.0),
            row("haproxy", "handshake-full", 0, 100.0),
            row("nginx", "handshake-full", 0, 200.0),
            row("hnlb", "requests", 1024, 8.0),
            row("haproxy", "requests", 1024, 10.0),
            row("nginx", "requests", 0, 10.0),
            row("hnlb", "flood", 0, 100.0),
            row("haproxy", "flood", 0, 1000.0),
        ];
        let found: Vec<_> =
            ratios(&rows).iter().map(|own| (own.other, own.bound.holds(own.part))).collect();
        // Of requests without bytes there is none of HNLB's.
        let wanted = [("haproxy", true), ("nginx", false), ("haproxy", false), ("haproxy", true)];
        assert_eq!(found, wanted);
        assert_eq!(https_text(&rows).matches("missed").count(), 2);
    }

    #[test]
    fn the_file_has_all_rows() {
        let rows = vec![row("hnlb", "flood", 0, 1.0), row("nginx", "requests", 5, 20.0)];
        let dir = tempfile::tempdir().unwrap();
        let files = write_https(dir.path(), &Machine::this("DPDK"), &rows).unwrap();
        let json = std::fs::read_to_string(&files[0]).unwrap();
        let json: serde_json::Value = serde_json::from_str(&json).unwrap();
        let again: Vec<HttpsRow> = serde_json::from_value(json["rows"].clone()).unwrap();
        assert_eq!(again, rows);
    }
}
