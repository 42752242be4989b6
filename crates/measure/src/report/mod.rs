//! From measured rows to results: medians and confidence intervals, plots in
//! the paper's arrangement, and one HTML report that sets the paper's figures
//! beside ours.
//!
//! Rows come from the evaluation; any value that serialises with the fields of
//! [`Row`] is a row too ([`Row::of`]). [`Report::write`] makes the files.

mod bars;
mod chart;
mod claims;
pub(crate) mod columns;
mod error;
mod figures;
mod files;
mod findings;
mod goals;
mod groups;
pub(crate) mod html;
mod linearity;
mod machine;
mod row;
mod style;
mod summary;
mod tables;
mod write;
mod xenoflow;

pub use crate::statistics::{Estimate, Line, median};
pub use claims::{Claim, claims};
pub use error::ReportError;
pub use figures::{Figure, figures};
pub use files::{csv, json};
pub use findings::{ChurnRow, Findings, InstallRow, LatencyRow, NewFlowRow};
pub use goals::{Goal, Verdict, goals};
pub use groups::{Group, churns, installs, latencies, new_flows};
pub use linearity::{Linearity, linearity};
pub use machine::Machine;
pub use row::{NEAR, Row};
pub use summary::{Point, Results};
pub use write::Report;
pub use xenoflow::{XenoflowRow, write_xenoflow, xenoflow_text};
