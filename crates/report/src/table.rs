//! Rows and points as CSV and JSON.

use std::fmt::Write as _;

use serde::Serialize;

use crate::{Machine, Point, ReportError, Results, Row};

/// The rows as comma separated values (RFC 4180) with a head line; an offered
/// rate that there wasn't is empty.
#[must_use]
pub fn csv(rows: &[Row]) -> String {
    let mut text = String::from(
        "figure,system,connections,packet_size,mpps,ns_per_packet,util,util_plus,loss,\
         offered_mpps,empty_polls,repetition,traffic,matched,stolen\n",
    );
    for row in rows {
        let offered = row.offered_mpps.map(|rate| rate.to_string()).unwrap_or_default();
        // Writing to a String cannot fail.
        let _ = writeln!(
            text,
            "{},{},{},{},{},{},{},{},{},{offered},{},{},{},{},{}",
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
            row.stolen
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

#[derive(Serialize)]
struct Document<'a> {
    machine: &'a Machine,
    settings: &'a [(String, String)],
    points: &'a [Point],
    rows: &'a [Row],
}

/// Everything as one JSON object: machine, settings, points, rows.
///
/// # Errors
/// [`ReportError::Json`].
pub fn json(
    machine: &Machine,
    settings: &[(String, String)],
    results: &Results,
) -> Result<String, ReportError> {
    let (points, rows) = (results.points(), results.rows());
    serde_json::to_string_pretty(&Document { machine, settings, points, rows })
        .map_err(ReportError::Json)
}
