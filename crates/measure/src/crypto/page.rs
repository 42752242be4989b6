//! The outcome as text, as plots, and as a page of its own.
use std::path::{Path, PathBuf};

use maud::{PreEscaped, html};

use super::row::{Row, What};
use super::run::Outcome;
use crate::report::columns::{Cell, Column, Table};
use crate::report::html::{document, section};
use crate::report::plot::{Plot, Series, Spot, XAxis};
use crate::report::run::write_all;
use crate::report::style::SHADES;
use crate::report::{Machine, ReportError};

/// Said beside all figures.
const NOTE: &str = "Figure 4 of the LB-NIC paper compares an x86 host with a LiquidIO 3: the host's \
    cores do 6.3 times the handshakes of the card's, and the card's crypto engine seals 2 times as \
    fast as AES-NI at 1024 bytes and 3.3 times at 8192. No such card is here: the handshakes of a \
    slower core were not measured, and DPDK's crypto devices below are software on the same cores.";

const HANDSHAKES: &str = "The server's side of a whole TLS 1.3 handshake in memory, tickets included, \
    on one core; the client's side is not counted.";

const SYMMETRIC: &str = "TLS 1.3 records sealed in bursts of 32 on one core, in the cache; the \
    percentiles are of the time for a burst. rustls: a connection's writer and write_tls, with the \
    copies into its buffer; aws-lc-rs: the AEAD of rustls's provider in place, as a worker that has \
    the keys would call it; the others: DPDK's crypto devices.";

const SPLIT: &str = "Records of 256 established connections at half of what a core can seal, due at \
    equal distances, beside handshakes up to what a core can do; the percentiles are of the time \
    from when a record is due to when it is sealed. A handshake is the server's answer to a \
    ClientHello. Handshakes on the same core: its one thread takes them and records by turns; on \
    another core: a thread there hands over the keys.";

const ENDPOINTS: &str = "Requests of 200 bytes on 16 connections, and responses, with their TLS 1.3 \
    records, on one core; the percentiles are of the time for 16 requests. smoltcp: from packets to \
    packets in memory, as the terminator has them. kernel: the time of a thread that serves sockets \
    over loopback; the packets' way between HNLB and the kernel is not in it. \
    kernel-no-records: the same without sealing anything, which kTLS cannot go below.";

/// The paper's ratio of the card's engine to AES-NI, by bytes.
const PAPER: [(usize, f64); 2] = [(1024, 2.0), (8192, 3.3)];

impl Outcome {
    fn of(&self, what: What) -> impl Iterator<Item = &Row> {
        self.rows.iter().filter(move |row| row.what == what)
    }

    /// How many times as many records as aws-lc-rs in place an engine seals.
    fn ratio(&self, row: &Row) -> Option<f64> {
        let same = |base: &&Row| base.algorithm == row.algorithm && base.bytes == row.bytes;
        let base = self.of(What::Symmetric).filter(|base| base.engine == "aws-lc-rs").find(same)?;
        (base.per_s > 0.0).then(|| row.per_s / base.per_s)
    }

    fn tables(&self) -> [Table; 4] {
        let us: [Column<'_, &Row>; 3] = [
            ("p50, µs", &|row| Cell::number(row.p50_us, 1)),
            ("p99, µs", &|row| Cell::number(row.p99_us, 1)),
            ("p99.9, µs", &|row| Cell::number(row.p999_us, 1)),
        ];
        let [p50, p99, p999] = us;
        let algorithm: Column<'_, &Row> = ("Algorithms", &|row| row.algorithm.as_str().into());
        let engine: Column<'_, &Row> = ("Engine", &|row| row.engine.as_str().into());
        let bytes: Column<'_, &Row> = ("Bytes", &|row| Cell::count(row.bytes));
        let gbps: Column<'_, &Row> = ("Gbit/s", &|row| Cell::number(row.gbps, 2));
        let handshakes: [Column<'_, &Row>; 5] = [
            algorithm,
            ("Handshakes/s and core", &|row| Cell::number(row.per_s, 0)),
            p50,
            p99,
            p999,
        ];
        let ratio = |row: &&Row| Cell::number(self.ratio(row), 2);
        let paper = |row: &&Row| {
            let found = PAPER.iter().find(|(bytes, _)| *bytes == row.bytes);
            Cell::number(found.map(|(_, ratio)| *ratio), 1)
        };
        let symmetric: [Column<'_, &Row>; 9] = [
            algorithm,
            engine,
            bytes,
            ("Records/s", &|row| Cell::number(row.per_s, 0)),
            gbps,
            ("of aws-lc-rs", &ratio),
            ("Paper: card of AES-NI", &paper),
            p50,
            p99,
        ];
        let split: [Column<'_, &Row>; 7] = [
            algorithm,
            ("Handshakes on", &|row| row.engine.as_str().into()),
            ("Handshakes/s", &|row| Cell::number(row.handshakes_per_s, 0)),
            gbps,
            p50,
            p99,
            p999,
        ];
        let endpoint: [Column<'_, &Row>; 7] = [
            ("TCP", &|row| row.engine.as_str().into()),
            bytes,
            ("Requests/s and core", &|row| Cell::number(row.per_s, 0)),
            ("CPU, µs", &|row| Cell::number((row.per_s > 0.0).then(|| 1e6 / row.per_s), 2)),
            p50,
            p99,
            p999,
        ];
        [
            Table::of("Handshakes", self.of(What::Handshake), &handshakes).note(HANDSHAKES),
            Table::of("Records", self.of(What::Symmetric), &symmetric).note(SYMMETRIC),
            Table::of("Records beside handshakes", self.of(What::Split), &split).note(SPLIT),
            Table::of("End points of TCP", self.of(What::Endpoint), &endpoint).note(ENDPOINTS),
        ]
    }

    /// A curve for each engine: `x` and `y` of its rows, if it has them.
    fn curves(
        &self,
        what: What,
        algorithm: &str,
        x: impl Fn(&Row) -> Option<f64>,
        y: impl Fn(&Row) -> Option<f64>,
    ) -> Vec<Series> {
        let mut all: Vec<Series> = Vec::new();
        for row in self.of(what).filter(|row| row.algorithm == algorithm) {
            let Some(spot) = x(row).zip(y(row)).map(|(x, y)| Spot::only(x, y)) else { continue };
            let color = SHADES.get(all.len() % SHADES.len()).copied().unwrap_or_default();
            match all.iter_mut().find(|series| series.label == row.engine) {
                Some(series) => series.points.push(spot),
                None => all.push(Series {
                    label: row.engine.clone(),
                    color,
                    dashed: false,
                    points: vec![spot],
                    mark: None,
                }),
            }
        }
        all
    }

    /// Each plot with the name of its file.
    fn plots(&self) -> Vec<(String, Plot)> {
        let algorithms = |what| {
            let mut all: Vec<&str> = self.of(what).map(|row| row.algorithm.as_str()).collect();
            all.dedup();
            all.sort_unstable();
            all.dedup();
            all
        };
        let mut plots = Vec::new();
        for name in algorithms(What::Symmetric) {
            let bytes = |row: &Row| Some(row.bytes as f64);
            plots.push((
                format!("crypto-{}.svg", file_name(name)),
                Plot {
                    title: format!("{name}, one core"),
                    x_label: "bytes of a record".to_owned(),
                    y_label: "Gbit/s".to_owned(),
                    x: XAxis::Log,
                    series: self.curves(What::Symmetric, name, bytes, |row| row.gbps),
                    ..Plot::default()
                },
            ));
        }
        for name in algorithms(What::Split) {
            let rate = |row: &Row| row.handshakes_per_s;
            let throughput = Plot {
                title: format!("Records beside handshakes, {name}"),
                x_label: "handshakes a second".to_owned(),
                y_label: "Gbit/s".to_owned(),
                series: self.curves(What::Split, name, rate, |row| row.gbps),
                ..Plot::default()
            };
            let delays: [(&str, Figure); 3] = [
                ("p50", |row| row.p50_us),
                ("p99", |row| row.p99_us),
                ("p99.9", |row| row.p999_us),
            ];
            for (share, of) in delays {
                let delay = Plot {
                    y_label: format!("{share} of records, µs"),
                    log_y: true,
                    series: self.curves(What::Split, name, rate, |row| Some(of(row))),
                    ..throughput.clone()
                };
                plots.push((format!("crypto-split-{}-{share}.svg", file_name(name)), delay));
            }
            plots.push((format!("crypto-split-{}-gbps.svg", file_name(name)), throughput));
        }
        plots
    }
}

/// A figure of a row.
type Figure = fn(&Row) -> f64;

/// `text` in lower case, with a hyphen for each blank.
fn file_name(text: &str) -> String {
    text.to_lowercase().replace(' ', "-")
}

/// All figures for a terminal.
#[must_use]
pub fn crypto_text(outcome: &Outcome) -> String {
    let tables = outcome.tables().map(|table| table.text()).join("\n");
    format!("{NOTE}\n\n{tables}\n{}\n", outcome.memory)
}

/// Writes `crypto.json`, the plots and `crypto.html` into `dir`, which is made if
/// it isn't there. Returns their paths, the page last.
///
/// # Errors
/// [`ReportError`], with the file.
pub fn write_crypto(
    dir: &Path,
    machine: &Machine,
    outcome: &Outcome,
) -> Result<Vec<PathBuf>, ReportError> {
    let json = serde_json::json!({ "note": NOTE, "machine": machine, "rows": outcome.rows });
    let mut files = vec![("crypto.json".to_owned(), serde_json::to_string_pretty(&json)? + "\n")];
    let mut svgs = Vec::new();
    for (name, plot) in outcome.plots() {
        let svg = plot.svg()?;
        svgs.push(svg.clone());
        files.push((name, svg));
    }
    let body = html! {
        h1 { "TLS: asymmetric and symmetric work" }
        p.note { (NOTE) }
        div.plots { @for svg in &svgs { figure { (PreEscaped(svg)) } } }
        @for table in outcome.tables() { (table.html()) }
        (section("Machine", &html! {
            @for (name, value) in machine.lines() { p { (name) ": " (value) } }
            p { (outcome.memory) }
        }))
    };
    files.push(("crypto.html".to_owned(), document("HNLB: TLS work", &body)));
    write_all(dir, files)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(what: What, engine: &str, bytes: usize, per_s: f64) -> Row {
        Row {
            what,
            engine: engine.to_owned(),
            algorithm: "AES-128-GCM".to_owned(),
            bytes,
            per_s,
            gbps: Some(per_s * bytes as f64 / 1e9),
            p50_us: 1.0,
            p99_us: 2.0,
            p999_us: 3.0,
            handshakes_per_s: (what == What::Split).then_some(10.0),
            repetitions: 1,
        }
    }

    #[test]
    fn every_row_has_a_line_and_every_algorithm_a_plot() {
        let mut rows = vec![row(What::Handshake, "rustls", 0, 100.0)];
        for (engine, per_s) in [("aws-lc-rs", 1000.0), ("crypto_openssl", 500.0)] {
            rows.extend([1024, 8192].map(|bytes| row(What::Symmetric, engine, bytes, per_s)));
        }
        rows.extend(["same-core", "other-core"].map(|place| row(What::Split, place, 1400, 9.0)));
        rows.extend(["smoltcp", "kernel"].map(|tcp| row(What::Endpoint, tcp, 200, 9.0)));
        let outcome = Outcome { rows, memory: "ordinary pages".to_owned() };
        assert_eq!(outcome.rows.get(3).and_then(|row| outcome.ratio(row)), Some(0.5));

        let dir = tempfile::tempdir().unwrap();
        let files = write_crypto(dir.path(), &Machine::this("DPDK"), &outcome).unwrap();
        assert_eq!(files.len(), 1 + 5 + 1, "rows, a plot of records, four of the split, a page");
        let page = std::fs::read_to_string(files.last().unwrap()).unwrap();
        assert_eq!(page.matches("<svg").count(), 5);
        assert_eq!(page.matches("<tr><td").count(), outcome.rows.len());
        let text = crypto_text(&outcome);
        assert!(text.contains("0.50") && text.contains("3.3") && text.contains("same-core"));
    }
}
