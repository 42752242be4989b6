//! Rows and points as CSV and JSON.

use std::path::{Path, PathBuf};

use serde::Serialize;

use crate::report::{Findings, Goal, Linearity, Machine, Point, Report, ReportError, linearity};

/// Rows as comma separated values (RFC 4180) under the names of their fields; a
/// rate that there wasn't is empty.
///
/// # Errors
/// [`ReportError::Json`].
pub fn csv<T: Serialize>(rows: &[T]) -> Result<String, ReportError> {
    let mut text = String::new();
    for row in rows {
        let row = serde_json::to_value(row).map_err(ReportError::Json)?;
        let Some(fields) = row.as_object() else { continue };
        if text.is_empty() {
            text += &(fields.keys().map(String::as_str).collect::<Vec<_>>().join(",") + "\n");
        }
        text += &(fields.values().map(cell).collect::<Vec<_>>().join(",") + "\n");
    }
    Ok(text)
}

fn cell(value: &serde_json::Value) -> String {
    match value {
        serde_json::Value::Null => String::new(),
        serde_json::Value::String(text) if text.contains([',', '"', '\n', '\r']) => {
            format!("\"{}\"", text.replace('"', "\"\""))
        }
        serde_json::Value::String(text) => text.clone(),
        value => value.to_string(),
    }
}

/// A file of comma separated values for each kind of rows that there is.
pub(crate) fn csv_files(findings: &Findings) -> Result<Vec<(String, String)>, ReportError> {
    let Findings { rows, latency, new_flows, installs, churn } = findings;
    let files = [
        ("latency.csv", csv(latency)?),
        ("new.csv", csv(new_flows)?),
        ("install.csv", csv(installs)?),
        ("churn.csv", csv(churn)?),
    ];
    let files = files.into_iter().filter(|(_, text)| !text.is_empty());
    let all = [("results.csv", csv(rows)?)].into_iter().chain(files);
    Ok(all.map(|(name, text)| (name.to_owned(), text)).collect())
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

/// Writes named texts into a directory, which is made if it isn't there. Returns
/// their paths.
///
/// # Errors
/// [`ReportError::Write`], with the file.
pub(crate) fn write_all(
    dir: &Path,
    files: Vec<(String, String)>,
) -> Result<Vec<PathBuf>, ReportError> {
    let failed = |path: &Path| {
        let path = path.to_owned();
        move |source| ReportError::Write { path, source }
    };
    std::fs::create_dir_all(dir).map_err(failed(dir))?;
    let write = |(name, text): (String, String)| {
        let path = dir.join(name);
        std::fs::write(&path, text).map_err(failed(&path))?;
        Ok(path)
    };
    files.into_iter().map(write).collect()
}
