//! The report of a run, and the files that it makes.
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::report::columns::Table;
use crate::report::goals::study_goals;
use crate::report::{
    Figure, Findings, Goal, Linearity, Machine, Results, Verdict, figures, goals, html, linearity,
    tables,
};

/// Why a report could not be made.
#[derive(Debug, thiserror::Error)]
pub enum ReportError {
    /// The rows have no JSON form.
    #[error("the results cannot be written as JSON: {0}")]
    Json(#[from] serde_json::Error),
    /// A plot could not be drawn.
    #[error("the plot `{title}` cannot be drawn: {reason}")]
    Plot {
        /// Its title.
        title: String,
        /// What the plotter said.
        reason: String,
    },
    /// A file could not be written.
    #[error("cannot write {}: {source}", path.display())]
    Write {
        /// The file or directory.
        path: PathBuf,
        /// The system's answer.
        source: std::io::Error,
    },
}

/// Rows with what belongs to them.
#[derive(Debug, Clone)]
pub struct Report {
    /// What it was measured on.
    pub machine: Machine,
    /// Settings of the run, by name.
    pub settings: Vec<(String, String)>,
    /// Remarks, a paragraph each.
    pub notes: Vec<String>,
    /// Whether the run was ended before its time: then no goal is judged.
    pub interrupted: bool,
    findings: Findings,
    results: Results,
}

impl Report {
    /// A report of what was found.
    #[must_use]
    pub fn new(machine: Machine, settings: Vec<(String, String)>, findings: Findings) -> Self {
        let results = Results::of(findings.rows.clone());
        Self { machine, settings, notes: Vec::new(), interrupted: false, findings, results }
    }

    /// Rows and points of the paper's figures.
    #[must_use]
    pub const fn results(&self) -> &Results {
        &self.results
    }

    /// All rows.
    #[must_use]
    pub const fn findings(&self) -> &Findings {
        &self.findings
    }

    /// The HTML page.
    ///
    /// # Errors
    /// [`ReportError::Plot`].
    pub fn html(&self) -> Result<String, ReportError> {
        Ok(html::page(self, &self.plots()?))
    }

    /// All goals, judged unless the run was interrupted.
    #[must_use]
    pub fn all_goals(&self) -> Vec<Goal> {
        let mut all = goals(&self.results);
        all.extend(study_goals(&self.findings));
        if self.interrupted {
            for goal in &mut all {
                goal.verdict = Verdict::Unmeasured;
            }
        }
        all
    }

    /// The tables of the page for a terminal: all points and studies.
    #[must_use]
    pub fn text(&self) -> String {
        let (results, found) = (&self.results, &self.findings);
        let machine = self.machine.lines().into_iter().map(|(name, value)| (name.into(), value));
        let lines = machine.chain(self.settings.iter().cloned());
        let mut text: String = lines.map(|(name, value)| format!("{name}: {value}\n")).collect();
        let all = [
            tables::points(results),
            tables::lossless(results),
            tables::straightness(results, 7),
            tables::straightness(results, 8),
            tables::ipv6(results),
            tables::latency(found),
            tables::new_connections(found),
            tables::installation(found),
            tables::churn(found),
            tables::several(found),
        ];
        text.extend(all.iter().map(Table::text));
        text
    }

    fn plots(&self) -> Result<Vec<Figure>, ReportError> {
        figures(&self.findings, &self.results)
    }

    /// Machine, settings, goals, points, and rows of all kinds as one JSON object.
    fn json(&self) -> Result<String, ReportError> {
        let straight: Vec<Linearity> =
            [7, 8].iter().flat_map(|&figure| linearity(&self.results, figure)).collect();
        let all = json!({
            "machine": self.machine,
            "settings": self.settings,
            "goals": self.all_goals(),
            "points": self.results.json_points()?,
            "linearity": straight,
            "rows": self.findings.json_rows()?,
        });
        Ok(serde_json::to_string_pretty(&all)?)
    }

    /// Writes `results.csv` (and one for each other kind of rows), `results.json`, an SVG a plot and `report.html`
    /// into a directory, which is made if it isn't there. Returns their paths,
    /// the page last.
    ///
    /// # Errors
    /// [`ReportError`], with the file.
    pub fn write(&self, dir: &Path) -> Result<Vec<PathBuf>, ReportError> {
        let plots = self.plots()?;
        let page = html::page(self, &plots);
        let kinds = self.findings.kinds()?.into_iter();
        let some = kinds.filter(|(name, rows)| *name == "results" || !rows.is_empty());
        let mut files: Vec<_> =
            some.map(|(name, rows)| (format!("{name}.csv"), csv(&rows))).collect();
        files.push(("results.json".to_owned(), self.json()?));
        files.extend(plots.into_iter().map(|plot| (format!("{}.svg", plot.name), plot.svg)));
        files.push(("report.html".to_owned(), page));
        write_all(dir, files)
    }
}

/// JSON objects as comma separated values (RFC 4180) under the names of their
/// fields; null is empty.
#[must_use]
pub fn csv(rows: &[Value]) -> String {
    let mut text = String::new();
    for fields in rows.iter().filter_map(Value::as_object) {
        if text.is_empty() {
            text += &(fields.keys().map(String::as_str).collect::<Vec<_>>().join(",") + "\n");
        }
        text += &(fields.values().map(cell).collect::<Vec<_>>().join(",") + "\n");
    }
    text
}

fn cell(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) if text.contains([',', '"', '\n', '\r']) => {
            format!("\"{}\"", text.replace('"', "\"\""))
        }
        Value::String(text) => text.clone(),
        value => value.to_string(),
    }
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
