//! The XenoFlow paper's figures 4 to 8: rows, plots and a page of their own.
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::report::bars::{Bars, Series};
use crate::report::chart::{Chart, Curve, Spot};
use crate::report::columns::{Cell, Table};
use crate::report::files::write_all;
use crate::report::html::{document, section};
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
    /// The value; of latencies the median.
    pub value: f64,
    /// Its standard deviation, if it has one.
    pub deviation: f64,
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
    let text = serde_json::to_string_pretty(&rows_of).map_err(ReportError::Row)?;
    let mut files = vec![("xenoflow.json".to_owned(), text + "\n")];
    let plots = plots(rows)?;
    let page = page(rows, &plots);
    files.extend(plots.into_iter().map(|(figure, svg)| (format!("xenoflow-fig{figure}.svg"), svg)));
    files.push(("xenoflow.html".to_owned(), page));
    write_all(dir, files)
}

/// The series of a figure, in the order of their first rows.
fn series(rows: &[XenoflowRow], figure: u8) -> Vec<&str> {
    let mut all: Vec<&str> = Vec::new();
    for row in rows.iter().filter(|row| row.figure == figure) {
        if !all.contains(&row.series.as_str()) {
            all.push(&row.series);
        }
    }
    all
}

fn plots(rows: &[XenoflowRow]) -> Result<Vec<(u8, String)>, ReportError> {
    let mut plots = Vec::new();
    for (figure, title, log_x) in [
        (4, "Packets a second against payload (model)", true),
        (5, "Loss with 22 bytes of payload (model)", false),
        (6, "Bandwidth against payload (model)", true),
        (8, "Latency under background load (model)", false),
    ] {
        if let Some(chart) = chart(rows, figure, title, log_x) {
            plots.push((figure, chart.svg()?));
        }
    }
    if rows.iter().any(|row| row.figure == 7) {
        plots.push((7, bars(rows).svg()?));
    }
    plots.sort_by_key(|(figure, _)| *figure);
    Ok(plots)
}

fn chart(rows: &[XenoflowRow], figure: u8, title: &str, log_x: bool) -> Option<Chart> {
    let first = rows.iter().find(|row| row.figure == figure)?;
    let shown = |row: &&XenoflowRow| row.figure == figure && row.unit == first.unit;
    let curve = |name: &str, label: String, y: fn(&XenoflowRow) -> Option<f64>, at: usize| {
        let own = rows.iter().filter(shown).filter(|row| row.series == name);
        let points: Vec<_> = own.filter_map(|row| y(row).map(|y| Spot::only(row.x, y))).collect();
        let color = *SHADES.get(at % SHADES.len())?;
        let dashed = name != first.series || label.starts_with("paper");
        let dashed = dashed && figure != 8;
        (!points.is_empty()).then_some(Curve { label, color, dashed, points, mark: None })
    };
    let names = series(rows, figure);
    let mut curves: Vec<Curve> = names
        .iter()
        .enumerate()
        .filter_map(|(at, name)| curve(name, (*name).to_owned(), |row| Some(row.value), at))
        .collect();
    curves.extend(curve(&first.series, "paper (text)".to_owned(), |row| row.paper, names.len()));
    Some(Chart {
        title: format!("Figure {figure}: {title}"),
        x_label: first.x_unit.clone(),
        y_label: first.unit.clone(),
        log_x,
        log_y: false,
        y_max: None,
        curves,
    })
}

/// Figure 7: one bar a system.
fn bars(rows: &[XenoflowRow]) -> Bars {
    let own = rows.iter().filter(|row| row.figure == 7 && row.unit == "µs");
    let names: Vec<&str> = series(rows, 7)
        .into_iter()
        .filter(|name| own.clone().any(|row| row.series == **name))
        .collect();
    let series = names.iter().zip(SHADES.iter().cycle()).map(|(name, color)| {
        let same = own.clone().filter(|row| row.series == **name);
        let medians: Vec<f64> = same.map(|row| row.value).collect();
        let value = Estimate::of(&medians);
        Series { label: (*name).to_owned(), color: *color, values: vec![value], pale: Vec::new() }
    });
    Bars {
        title: "Figure 7: round trip of a UDP packet (lab)".to_owned(),
        x_label: String::new(),
        y_label: "µs".to_owned(),
        categories: vec!["median".to_owned()],
        series: series.collect(),
    }
}

fn page(rows: &[XenoflowRow], plots: &[(u8, String)]) -> String {
    let mut body = format!("<h1>XenoFlow's figures</h1>\n<p class=\"note\">{XENOFLOW_NOTE}</p>\n");
    for (figure, svg) in plots {
        let own = rows.iter().filter(|row| row.figure == *figure);
        let text = format!("<figure>{svg}</figure>\n{}", table(own).html());
        body += &section(&format!("Figure {figure}"), &text);
    }
    document("HNLB: XenoFlow's figures", &body)
}

/// All rows for a terminal.
#[must_use]
pub fn xenoflow_text(rows: &[XenoflowRow]) -> String {
    format!("{XENOFLOW_NOTE}\n{}", table(rows.iter()).text())
}

fn table<'r>(rows: impl Iterator<Item = &'r XenoflowRow>) -> Table {
    let head = [
        "Series",
        "Figure",
        "Source",
        "At",
        "",
        "Value",
        "Unit",
        "Standard deviation",
        "Paper",
        "Samples",
        "Note",
    ];
    let row = |row: &XenoflowRow| {
        vec![
            Cell::from(&row.series),
            row.figure.into(),
            Cell::from(&row.source),
            row.x.into(),
            Cell::from(&row.x_unit),
            Cell::number(Some(row.value), 3),
            Cell::from(&row.unit),
            Cell::number(Some(row.deviation), 3),
            Cell::number(row.paper, 1),
            row.samples.into(),
            Cell::from(&row.note),
        ]
    };
    Table::new("", 1, &head).rows(rows.map(row))
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
                rows.push(XenoflowRow { x, value: 90.0 + x / 100.0, paper: Some(96.7), ..row });
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
