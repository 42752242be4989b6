//! What a request costs HNLB's L7 agent, HAProxy and nginx: rows, plots and a page.
use std::path::{Path, PathBuf};

use maud::{PreEscaped, html};
use serde::{Deserialize, Serialize};

use crate::report::columns::{Cell, Column, Table};
use crate::report::html::{document, section};
use crate::report::plot::{Plot, Series, Spot, XAxis};
use crate::report::run::write_all;
use crate::report::style::SHADES;
use crate::report::{Estimate, Machine, ReportError};

/// One load on one system.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct HttpRow {
    /// `hnlb`, `haproxy` or `nginx`.
    pub system: String,
    /// Bytes of each response's body.
    pub bytes: usize,
    /// Whether connections last; otherwise each request has one of its own.
    pub keepalive: bool,
    /// Whether the balancer adds fields to the requests.
    pub insert: bool,
    /// Requests answered a second.
    pub requests_per_s: f64,
    /// Processor time of the balancer for each, in microseconds.
    pub cpu_us_per_request: f64,
    /// The kernel's part of it, in system calls.
    pub system_us_per_request: f64,
    /// Median of the time to an answer, in microseconds.
    pub p50_us: u64,
    /// Its 99th percentile.
    pub p99_us: u64,
    /// Its 99.9th percentile.
    pub p999_us: u64,
    /// Requests that failed.
    pub failed: u64,
}

/// What `hnlb bench http --json` prints of a row.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct HttpLine<'a> {
    system: &'a str,
    bytes: usize,
    keepalive: bool,
    insert: bool,
    requests_per_s: f64,
    cpu_us_per_request: f64,
    p50_us: u64,
    p99_us: u64,
    failed: u64,
}

impl HttpRow {
    /// The row for scripts. Everything is in `http.json`.
    #[must_use]
    pub fn line(&self) -> HttpLine<'_> {
        HttpLine {
            system: &self.system,
            bytes: self.bytes,
            keepalive: self.keepalive,
            insert: self.insert,
            requests_per_s: self.requests_per_s,
            cpu_us_per_request: self.cpu_us_per_request,
            p50_us: self.p50_us,
            p99_us: self.p99_us,
            failed: self.failed,
        }
    }
}

/// The systems, in the order of plots.
const SYSTEMS: [(&str, bool); 6] = [
    ("hnlb", true),
    ("haproxy", true),
    ("nginx", true),
    ("hnlb", false),
    ("haproxy", false),
    ("nginx", false),
];

/// A time of a request that is plotted.
struct Shown {
    /// Its name in titles and in names of files.
    name: &'static str,
    file: &'static str,
    of: fn(&HttpRow) -> f64,
}

const SHOWN: [Shown; 4] = [
    Shown { name: "Processor time", file: "cpu", of: |row| row.cpu_us_per_request },
    Shown { name: "Latency, median", file: "p50", of: |row| row.p50_us as f64 },
    Shown { name: "Latency, 99th percentile", file: "p99", of: |row| row.p99_us as f64 },
    Shown { name: "Latency, 99.9th percentile", file: "p999", of: |row| row.p999_us as f64 },
];

/// The part of the others' processor time that HNLB may take, at most: of requests on
/// connections that last, and on new ones.
const GOALS: [(bool, f64); 2] = [(true, 1.0 / 5.0), (false, 1.0 / 3.0)];

const NOTE: &str = "One thread serves requests in each system, in network namespaces of one machine \
    with client and backends. HAProxy and nginx are charged with the processor time of their \
    process: what they do, and what the kernel does in their system calls. HNLB's worker polls \
    without end and is charged with util+, the share of its cycles that iterations with packets \
    have taken, of the time that it had a processor. The kernel's soft interrupts are charged to \
    none. Neither is the emulated NIC, which stands for a card; with AF_XDP sockets (--xdp) there \
    is none, and their system calls are HNLB's.";

/// The median processor time of a system's request; `None`: it was not measured.
fn cost(rows: &[HttpRow], system: (&str, bool), bytes: usize, keepalive: bool) -> Option<Estimate> {
    let [cpu, ..] = SHOWN;
    estimate(rows, &cpu, system, (bytes, keepalive))
}

/// The median of what is shown of a system's requests.
fn estimate(
    rows: &[HttpRow],
    shown: &Shown,
    (name, insert): (&str, bool),
    (bytes, keepalive): (usize, bool),
) -> Option<Estimate> {
    let own = |row: &&HttpRow| {
        row.system == name
            && row.insert == insert
            && row.bytes == bytes
            && row.keepalive == keepalive
    };
    Estimate::of(&rows.iter().filter(own).map(shown.of).collect::<Vec<_>>())
}

fn sizes(rows: &[HttpRow]) -> Vec<usize> {
    let mut sizes: Vec<usize> = rows.iter().map(|row| row.bytes).collect();
    sizes.sort_unstable();
    sizes.dedup();
    sizes
}

/// HNLB's processor time as a part of each other system's.
struct Ratio {
    bytes: usize,
    keepalive: bool,
    insert: bool,
    other: &'static str,
    part: f64,
    goal: f64,
}

fn ratios(rows: &[HttpRow]) -> Vec<Ratio> {
    let mut all = Vec::new();
    for (keepalive, goal) in GOALS {
        for (bytes, insert) in sizes(rows).into_iter().flat_map(|own| [(own, true), (own, false)]) {
            let Some(own) = cost(rows, ("hnlb", insert), bytes, keepalive) else { continue };
            for other in ["haproxy", "nginx"] {
                if let Some(theirs) = cost(rows, (other, insert), bytes, keepalive) {
                    let part = own.median / theirs.median;
                    all.push(Ratio { bytes, keepalive, insert, other, part, goal });
                }
            }
        }
    }
    all
}

const fn connections(keepalive: bool) -> &'static str {
    if keepalive { "keep-alive" } else { "new" }
}

const fn yes(is: bool) -> &'static str {
    if is { "yes" } else { "no" }
}

fn goal_table(rows: &[HttpRow]) -> Table {
    let columns: [Column<'_, Ratio>; 7] = [
        ("Connections", &|row| connections(row.keepalive).into()),
        ("Bytes", &|row| Cell::count(row.bytes)),
        ("Fields added", &|row| yes(row.insert).into()),
        ("Beside", &|row| row.other.into()),
        ("HNLB's part", &|row| Cell::number(row.part, 3)),
        ("Goal, at most", &|row| Cell::number(row.goal, 3)),
        ("", &|row| (if row.part <= row.goal { "met" } else { "missed" }).into()),
    ];
    Table::of("Processor time of a request", ratios(rows), &columns)
}

fn row_table(rows: &[HttpRow]) -> Table {
    let columns: [Column<'_, &HttpRow>; 11] = [
        ("System", &|row| row.system.as_str().into()),
        ("Bytes", &|row| Cell::count(row.bytes)),
        ("Connections", &|row| connections(row.keepalive).into()),
        ("Fields added", &|row| yes(row.insert).into()),
        ("Requests/s", &|row| Cell::number(row.requests_per_s, 0)),
        ("µs of processor", &|row| Cell::number(row.cpu_us_per_request, 2)),
        ("of that system", &|row| Cell::number(row.system_us_per_request, 2)),
        ("p50, µs", &|row| Cell::count(row.p50_us)),
        ("p99, µs", &|row| Cell::count(row.p99_us)),
        ("p99.9, µs", &|row| Cell::count(row.p999_us)),
        ("Failed", &|row| Cell::count(row.failed)),
    ];
    Table::of("All loads", rows, &columns)
}

/// All rows and the goals for a terminal.
#[must_use]
pub fn http_text(rows: &[HttpRow]) -> String {
    format!("{NOTE}\n{}\n{}", row_table(rows).text(), goal_table(rows).text())
}

/// Writes `http.json`, the plots and `http.html` into `dir`, which is made if it isn't
/// there. Returns their paths, the page last.
///
/// # Errors
/// [`ReportError`], with the file.
pub fn write_http(
    dir: &Path,
    machine: &Machine,
    rows: &[HttpRow],
) -> Result<Vec<PathBuf>, ReportError> {
    let all = serde_json::json!({ "note": NOTE, "machine": machine, "rows": rows });
    let mut files = vec![("http.json".to_owned(), serde_json::to_string_pretty(&all)? + "\n")];
    let mut plots = Vec::new();
    for shown in &SHOWN {
        for keepalive in [true, false] {
            let svg = curves(rows, shown, keepalive).svg()?;
            let name = format!("http-{}-{}.svg", shown.file, connections(keepalive));
            files.push((name, svg.clone()));
            plots.push(svg);
        }
    }
    let body = html! {
        h1 { "HTTP requests" }
        p.note { (NOTE) }
        @for svg in &plots { figure { (PreEscaped(svg)) } }
        (section("Goals", &goal_table(rows).html()))
        (section("Rows", &row_table(rows).html()))
        (section("Machine", &html! {
            @for (name, value) in machine.lines() { p { (name) ": " (value) } }
        }))
    };
    files.push(("http.html".to_owned(), document("HNLB: HTTP requests", &body)));
    write_all(dir, files)
}

/// A time against bytes.
fn curves(rows: &[HttpRow], shown: &Shown, keepalive: bool) -> Plot {
    let curve = |((name, insert), color): ((&str, bool), _)| {
        let of = |bytes: usize| {
            let estimate = estimate(rows, shown, (name, insert), (bytes, keepalive))?;
            Some(Spot::new(bytes as f64, &estimate, 1.0))
        };
        let label = if insert { name.to_owned() } else { format!("{name}, nothing added") };
        let points: Vec<Spot> = sizes(rows).into_iter().filter_map(of).collect();
        Series { label, color, dashed: !insert, points, mark: None }
    };
    let series = SYSTEMS.into_iter().zip(SHADES.into_iter().cycle()).map(curve);
    Plot {
        title: format!("{} of a request, {} connections", shown.name, connections(keepalive)),
        x_label: "bytes of the response".to_owned(),
        y_label: "µs".to_owned(),
        x: XAxis::Log,
        log_y: true,
        series: series.filter(|series| !series.points.is_empty()).collect(),
        ..Plot::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(system: &str, bytes: usize, keepalive: bool, cpu: f64) -> HttpRow {
        let (system, insert) = (system.to_owned(), true);
        HttpRow { system, bytes, keepalive, insert, cpu_us_per_request: cpu, ..HttpRow::default() }
    }

    #[test]
    fn a_goal_is_met_by_the_part_of_the_medians() {
        let mut rows = Vec::new();
        for (keepalive, own) in [(true, [1.0, 3.0, 2.0]), (false, [5.0, 6.0, 4.0])] {
            rows.extend(own.map(|cpu| row("hnlb", 0, keepalive, cpu)));
            rows.push(row("haproxy", 0, keepalive, 12.0));
            rows.push(row("nginx", 0, keepalive, 30.0));
        }
        let found: Vec<(f64, bool)> =
            ratios(&rows).iter().map(|own| (own.part, own.part <= own.goal)).collect();
        let expected =
            [(2.0 / 12.0, true), (2.0 / 30.0, true), (5.0 / 12.0, false), (5.0 / 30.0, true)];
        assert_eq!(found, expected);
        let text = http_text(&rows);
        assert_eq!(text.matches("missed").count(), 1);
    }

    #[test]
    fn a_line_has_nine_fields() {
        let own = HttpRow { p999_us: 7, ..row("hnlb", 4096, true, 2.5) };
        assert_eq!(
            serde_json::to_string(&own.line()).unwrap(),
            "{\"system\":\"hnlb\",\"bytes\":4096,\"keepalive\":true,\"insert\":true,\
             \"requests_per_s\":0.0,\"cpu_us_per_request\":2.5,\"p50_us\":0,\"p99_us\":0,\
             \"failed\":0}"
        );
    }

    #[test]
    fn the_page_has_all_plots_and_the_file_all_rows() {
        let mut rows = vec![row("hnlb", 0, true, 1.0), row("nginx", 0, true, 20.0)];
        rows.extend([row("hnlb", 4096, true, 2.0), row("hnlb", 0, false, 9.0)]);
        let dir = tempfile::tempdir().unwrap();
        let files = write_http(dir.path(), &Machine::this("DPDK"), &rows).unwrap();
        assert_eq!(files.len(), 10);
        let page = std::fs::read_to_string(files.last().unwrap()).unwrap();
        assert_eq!(page.matches("<svg").count(), 8);
        let json = std::fs::read_to_string(&files[0]).unwrap();
        let json: serde_json::Value = serde_json::from_str(&json).unwrap();
        let again: Vec<HttpRow> = serde_json::from_value(json["rows"].clone()).unwrap();
        assert_eq!(again, rows);
    }
}
