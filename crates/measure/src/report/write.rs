//! The report as a whole.

use std::path::{Path, PathBuf};

use crate::report::figures::study_figures;
use crate::report::files::{csv_files, write_all};
use crate::report::goals::study_goals;
use crate::report::{
    Figure, Findings, Goal, Machine, ReportError, Results, figures, goals, html, json, tables,
};

/// Rows with what belongs to them.
#[derive(Debug, Clone)]
pub struct Report {
    /// What it was measured on.
    pub machine: Machine,
    /// Settings of the run, by name.
    pub settings: Vec<(String, String)>,
    /// Goals that no row decides, such as the time for a new connection; they
    /// follow those of [`crate::report::goals`].
    pub goals: Vec<Goal>,
    /// Remarks, a paragraph each.
    pub notes: Vec<String>,
    findings: Findings,
    results: Results,
}

impl Report {
    /// A report of what was found.
    #[must_use]
    pub fn new(machine: Machine, settings: Vec<(String, String)>, findings: Findings) -> Self {
        let (goals, notes) = (Vec::new(), Vec::new());
        let results = Results::of(findings.rows.clone());
        Self { machine, settings, goals, notes, findings, results }
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

    /// The goals that rows decide, then [`Report::goals`].
    #[must_use]
    pub fn all_goals(&self) -> Vec<Goal> {
        let mut all = goals(&self.results);
        all.extend(study_goals(&self.findings));
        all.extend_from_slice(&self.goals);
        all
    }

    /// The tables of the page for a terminal: all points and studies.
    #[must_use]
    pub fn text(&self) -> String {
        let (results, found) = (&self.results, &self.findings);
        let mut text = String::new();
        for (name, value) in &self.settings {
            text += &format!("{name}: {value}\n");
        }
        let all = [
            tables::points(results),
            tables::straightness(results, 7),
            tables::straightness(results, 8),
            tables::ipv6(results),
            tables::latency(found),
            tables::new_connections(found),
            tables::installation(found),
            tables::churn(found),
        ];
        text.extend(all.iter().map(crate::report::columns::Table::text));
        text
    }

    fn plots(&self) -> Result<Vec<Figure>, ReportError> {
        let mut plots = figures(&self.results)?;
        plots.extend(study_figures(&self.findings)?);
        Ok(plots)
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
        let mut files = csv_files(&self.findings)?;
        files.push(("results.json".to_owned(), json(self)?));
        files.extend(plots.into_iter().map(|plot| (format!("{}.svg", plot.name), plot.svg)));
        files.push(("report.html".to_owned(), page));
        write_all(dir, files)
    }
}
