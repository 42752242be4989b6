//! What can go wrong with a report.

use std::path::PathBuf;

/// Why a report could not be made.
#[derive(Debug, thiserror::Error)]
pub enum ReportError {
    /// A value that has not the fields of a row.
    #[error("this is no row of a measurement: {0}; see the fields of `report::Row`")]
    Row(serde_json::Error),
    /// The rows have no JSON form.
    #[error("the results cannot be written as JSON: {0}")]
    Json(serde_json::Error),
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
