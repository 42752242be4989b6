//! Rows and points as CSV and JSON.

use std::fmt::Write as _;

use serde::Serialize;

use crate::report::{
    Findings, Goal, Linearity, Machine, Point, Report, ReportError, Row, linearity,
};

/// The rows as comma separated values (RFC 4180) with a head line; an offered
/// rate that there wasn't is empty.
#[must_use]
pub fn csv(rows: &[Row]) -> String {
    let mut text = String::from(
        "figure,system,connections,packet_size,mpps,ns_per_packet,util,util_plus,loss,\
         offered_mpps,empty_polls,repetition,traffic,matched,stolen,dropped,backends,queues,distance_ns\n",
    );
    for row in rows {
        let offered = row.offered_mpps.map(|rate| rate.to_string()).unwrap_or_default();
        // Writing to a String cannot fail.
        let _ = writeln!(
            text,
            "{},{},{},{},{},{},{},{},{},{offered},{},{},{},{},{},{},{},{},{}",
            row.figure,
            quoted(&row.system),
            row.connections,
            row.packet_size,
            row.mpps,
            row.ns_per_packet,
            row.util,
            row.util_plus,
            row.loss,
            row.empty_polls,
            row.repetition,
            quoted(&row.traffic),
            row.matched,
            row.stolen,
            row.dropped,
            row.backends,
            row.queues,
            row.distance_ns
        );
    }
    text
}

fn quoted(text: &str) -> String {
    if text.contains([',', '"', '\n', '\r']) {
        format!("\"{}\"", text.replace('"', "\"\""))
    } else {
        text.to_owned()
    }
}

/// Any rows as comma separated values with these columns, if there are any.
///
/// # Errors
/// [`ReportError::Json`].
pub(crate) fn csv_of<T: Serialize>(
    rows: &[T],
    columns: &[&str],
) -> Result<Option<String>, ReportError> {
    if rows.is_empty() {
        return Ok(None);
    }
    let mut text = columns.join(",") + "\n";
    for row in rows {
        let row = serde_json::to_value(row).map_err(ReportError::Json)?;
        let cells: Vec<String> = columns
            .iter()
            .map(|column| match row.get(column) {
                Some(serde_json::Value::String(text)) => quoted(text),
                Some(value) => value.to_string(),
                None => String::new(),
            })
            .collect();
        text += &(cells.join(",") + "\n");
    }
    Ok(Some(text))
}

/// Files of the rows beside the paper's figures: name and columns.
const LATENCY: [&str; 14] = [
    "figure",
    "system",
    "connections",
    "rate_mpps",
    "share",
    "p50_us",
    "p90_us",
    "p99_us",
    "p999_us",
    "p9999_us",
    "packets",
    "loss",
    "stolen",
    "repetition",
];
const NEW: [&str; 9] =
    ["figure", "path", "part", "table", "fill", "ns", "per_second", "connections", "repetition"];
const INSTALL: [&str; 6] =
    ["figure", "system", "rules_per_second", "ns_per_packet", "mpps", "repetition"];
const CHURN: [&str; 17] = [
    "figure",
    "system",
    "arrivals_per_second",
    "opened_per_second",
    "removed_per_second",
    "rules_made_per_second",
    "rules_undone_per_second",
    "connections",
    "mpps",
    "ns_per_packet",
    "util",
    "matched",
    "loss",
    "behind",
    "highest",
    "bound",
    "repetition",
];

/// A file of comma separated values for each kind of rows that there is.
pub(crate) fn csv_files(findings: &Findings) -> Result<Vec<(String, String)>, ReportError> {
    let Findings { latency, new_flows, installs, churn, .. } = findings;
    let files = [
        ("latency.csv", csv_of(latency, &LATENCY)?),
        ("new.csv", csv_of(new_flows, &NEW)?),
        ("install.csv", csv_of(installs, &INSTALL)?),
        ("churn.csv", csv_of(churn, &CHURN)?),
    ];
    Ok(files.into_iter().filter_map(|(name, text)| Some((name.to_owned(), text?))).collect())
}

#[derive(Serialize)]
struct Document<'a> {
    machine: &'a Machine,
    settings: &'a [(String, String)],
    goals: &'a [Goal],
    points: &'a [Point],
    linearity: &'a [Linearity],
    rows: Vec<serde_json::Value>,
}

/// Everything as one JSON object: machine, settings, goals, points, rows of
/// all kinds.
///
/// # Errors
/// [`ReportError::Json`].
pub fn json(report: &Report) -> Result<String, ReportError> {
    let results = report.results();
    let straight: Vec<Linearity> = [7, 8].iter().flat_map(|&n| linearity(results, n)).collect();
    let rows = report.findings().json_rows().map_err(ReportError::Json)?;
    let document = Document {
        machine: &report.machine,
        settings: &report.settings,
        goals: &report.all_goals(),
        points: results.points(),
        linearity: &straight,
        rows,
    };
    serde_json::to_string_pretty(&document).map_err(ReportError::Json)
}
