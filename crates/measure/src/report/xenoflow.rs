//! The XenoFlow paper's figures 4 to 8: rows, plots and a page of their own.
use std::path::{Path, PathBuf};

use maud::{PreEscaped, html};
use serde::{Deserialize, Serialize};

use crate::report::columns::{Cell, Table};
use crate::report::html::{document, section};
use crate::report::plot::{Plot, Series, Spot, XAxis};
use crate::report::run::write_all;
use crate::report::style::SHADES;
use crate::report::{Estimate, Machine, ReportError};

/// One point of one curve.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct XenoflowRow {
    /// The paper's figure, 4 to 8.
    pub figure: u8,
    /// `model`: computed in emulated time from the profile's rates; `lab`:
    /// measured in network namespaces.
    pub source: String,
    /// The curve or bar.
    pub series: String,
    /// Where it stands.
    pub x: f64,
    /// What that is.
    pub x_unit: String,
    /// The value; of latencies the median. `None`: only the paper has one.
    pub value: Option<f64>,
    /// Its standard deviation, if it has one.
    pub deviation: Option<f64>,
    /// Its unit.
    pub unit: String,
    /// What the paper's text says, if it does.
    pub paper: Option<f64>,
    /// Packets or round trips behind it.
    pub samples: u64,
    /// What has to be known of it.
    pub note: String,
}

impl XenoflowRow {
    /// A row of the model.
    #[must_use]
    pub fn model(figure: u8, series: &str) -> Self {
        Self { figure, source: "model".to_owned(), series: series.to_owned(), ..Self::default() }
    }

    /// A row of the lab.
    #[must_use]
    pub fn lab(figure: u8, series: &str) -> Self {
        Self { source: "lab".to_owned(), ..Self::model(figure, series) }
    }
}

/// Said beside all figures.
const XENOFLOW_NOTE: &str = "Figures 4, 5, 6 and 8 are a model: every packet goes through the \
    emulated BlueField-3's match and rewrite code, but how long that takes is the rate that the \
    paper measured (96.7 Mpps, 92.8 Mpps from 23 bytes of payload on, ports of 100 Gbit/s). Nothing \
    was measured on a card. Figure 7 is measured in network namespaces on this machine, where the \
    emulated NIC is a program on a core: what it adds is not what a card adds. The paper's values \
    are those of its text.";

/// Where a figure and the paper's differ, by its number.
const fn difference(figure: u8) -> &'static str {
    match figure {
        6 => {
            "The paper's card barely comes to the line rate beyond 1024 bytes of payload and never \
             quite reaches it, for which its text has no number. The model's does, as the wire is \
             all that holds it there."
        }
        7 => {
            "The paper's backend is a DOCA Flow program that returns the request; here it is a \
             program on a socket. The paper gives 102 µs for bind9 on Ubuntu 24.04 with a local \
             zone file (the line bind9), which is not measured here."
        }
        8 => {
            "The paper's values are round trips of a DNS request through two machines, constant \
             below 90 Mpps; the model's are the time in card, wire and the backend's link alone, so \
             levels differ and shapes compare: constant, and a rise at 90 Mpps. The paper sees that \
             rise with all load on the backend that is not probed (0/100), and a slight one in the \
             other splits; the model has no backend machine, so its rise is that of the links' \
             queues, the largest where the probed backend has all load."
        }
        _ => "",
    }
}

/// Writes `xenoflow.json`, a plot a figure and `xenoflow.html` into `dir`, which
/// is made if it isn't there. Returns their paths, the page last.
///
/// # Errors
/// [`ReportError`], with the file.
pub fn write_xenoflow(
    dir: &Path,
    machine: &Machine,
    rows: &[XenoflowRow],
) -> Result<Vec<PathBuf>, ReportError> {
    let rows_of = serde_json::json!({ "note": XENOFLOW_NOTE, "machine": machine, "rows": rows });
    let mut files =
        vec![("xenoflow.json".to_owned(), serde_json::to_string_pretty(&rows_of)? + "\n")];
    let mut plots = Vec::new();
    for (figure, title, log_x) in [
        (4, "Packets a second against payload (model)", true),
        (5, "Loss with 22 bytes of payload (model)", false),
        (6, "Bandwidth against payload (model)", true),
        (7, "Round trip of a UDP packet (lab)", false),
        (8, "Latency under background load (model)", false),
    ] {
        let plot = if figure == 7 { bars(rows, title) } else { curves(rows, figure, title, log_x) };
        if !plot.series.is_empty() {
            plots.push((figure, plot.svg()?));
        }
    }
    let page = page(machine, rows, &plots);
    files.extend(plots.into_iter().map(|(figure, svg)| (format!("xenoflow-fig{figure}.svg"), svg)));
    files.push(("xenoflow.html".to_owned(), page));
    write_all(dir, files)
}

/// The rows of a figure that its plot shows, by series in the order of their
/// first rows.
fn series(rows: &[XenoflowRow], figure: u8) -> Vec<(&str, Vec<&XenoflowRow>)> {
    let mut all: Vec<(&str, Vec<&XenoflowRow>)> = Vec::new();
    let own = || rows.iter().filter(|row| row.figure == figure);
    let unit = own().next().map(|row| &row.unit);
    for row in own().filter(|row| Some(&row.unit) == unit) {
        match all.iter_mut().find(|(name, _)| *name == row.series) {
            Some((_, rows)) => rows.push(row),
            None => all.push((&row.series, vec![row])),
        }
    }
    all
}

/// A curve for each series, and the paper's for the first.
fn curves(rows: &[XenoflowRow], figure: u8, title: &str, log_x: bool) -> Plot {
    let all = series(rows, figure);
    let Some(first) = all.first().and_then(|(_, rows)| rows.first()) else {
        return Plot::default();
    };
    type Of = fn(&XenoflowRow) -> Option<f64>;
    let curve = |at: usize, label: &str, rows: &[&XenoflowRow], y: Of| Series {
        label: label.to_owned(),
        color: SHADES.get(at % SHADES.len()).copied().unwrap_or_default(),
        dashed: at > 0 && figure != 8,
        points: rows.iter().filter_map(|row| Some(Spot::only(row.x, y(row)?))).collect(),
        mark: None,
    };
    let ours =
        all.iter().enumerate().map(|(at, (name, rows))| curve(at, name, rows, |row| row.value));
    let mut series: Vec<Series> = ours.collect();
    series.extend(
        all.first().map(|(_, rows)| curve(all.len(), "paper (text)", rows, |row| row.paper)),
    );
    series.retain(|series| !series.points.is_empty());
    Plot {
        title: format!("Figure {figure}: {title}"),
        x_label: first.x_unit.clone(),
        y_label: first.unit.clone(),
        x: if log_x { XAxis::Log } else { XAxis::Linear },
        series,
        ..Plot::default()
    }
}

/// Figure 7: one bar a system, over the repetitions.
fn bars(rows: &[XenoflowRow], title: &str) -> Plot {
    let bar = |((name, rows), color): ((&str, Vec<&XenoflowRow>), _)| {
        let medians: Vec<f64> = rows.iter().filter_map(|row| row.value.or(row.paper)).collect();
        let points = vec![Spot::new(0.0, &Estimate::of(&medians)?, 1.0)];
        Some(Series { label: name.to_owned(), color, dashed: false, points, mark: None })
    };
    Plot {
        title: format!("Figure 7: {title}"),
        y_label: "µs".to_owned(),
        x: XAxis::Names(vec!["median".to_owned()]),
        series: series(rows, 7)
            .into_iter()
            .zip(SHADES.into_iter().cycle())
            .filter_map(bar)
            .collect(),
        ..Plot::default()
    }
}

fn page(machine: &Machine, rows: &[XenoflowRow], plots: &[(u8, String)]) -> String {
    let body = html! {
        h1 { "XenoFlow's figures" }
        p.note { (XENOFLOW_NOTE) }
        @for (figure, svg) in plots {
            (section(&format!("Figure {figure}"), &html! {
                figure { (PreEscaped(svg)) }
                p { (difference(*figure)) }
                (table(rows.iter().filter(|row| row.figure == *figure)).html())
            }))
        }
        (section("Machine", &html! {
            @for (name, value) in machine.lines() { p { (name) ": " (value) } }
        }))
    };
    document("HNLB: XenoFlow's figures", &body)
}

/// All rows for a terminal.
#[must_use]
pub fn xenoflow_text(rows: &[XenoflowRow]) -> String {
    format!("{XENOFLOW_NOTE}\n{}", table(rows.iter()).text())
}

fn table<'r>(rows: impl Iterator<Item = &'r XenoflowRow>) -> Table {
    let columns: &[crate::report::columns::Column<'_, &XenoflowRow>] = &[
        ("Series", &|row| row.series.as_str().into()),
        ("Figure", &|row| Cell::count(row.figure)),
        ("Source", &|row| row.source.as_str().into()),
        ("At", &|row| Cell::count(row.x)),
        ("", &|row| row.x_unit.as_str().into()),
        ("Value", &|row| Cell::number(row.value, 3)),
        ("Unit", &|row| row.unit.as_str().into()),
        ("Standard deviation", &|row| Cell::number(row.deviation, 3)),
        ("Paper", &|row| Cell::number(row.paper, 1)),
        ("Samples", &|row| Cell::count(row.samples)),
        ("Note", &|row| row.note.as_str().into()),
    ];
    Table::of("", rows, columns)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_figure_has_a_plot_and_every_row_a_line() {
        let mut rows = Vec::new();
        for figure in 4..=8 {
            for x in [18.0, 64.0] {
                let row = XenoflowRow { unit: "µs".to_owned(), ..XenoflowRow::model(figure, "a") };
                rows.push(XenoflowRow {
                    x,
                    value: Some(90.0 + x / 100.0),
                    paper: Some(96.7),
                    ..row
                });
            }
        }
        let dir = tempfile::tempdir().unwrap();
        let machine = Machine::this("DPDK");
        let files = write_xenoflow(dir.path(), &machine, &rows).unwrap();
        assert_eq!(files.len(), 7);
        let page = std::fs::read_to_string(files.last().unwrap()).unwrap();
        assert_eq!(page.matches("<svg").count(), 5);
        assert_eq!(page.matches("<tr><td>").count(), rows.len());
        assert!(page.contains("paper (text)") && page.contains("Nothing was measured on a card"));
        let json = std::fs::read_to_string(&files[0]).unwrap();
        let json: serde_json::Value = serde_json::from_str(&json).unwrap();
        let again: Vec<XenoflowRow> = serde_json::from_value(json["rows"].clone()).unwrap();
        assert_eq!(again, rows);
    }
}
