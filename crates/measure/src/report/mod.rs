//! From measured rows to results: medians and confidence intervals, plots in
//! the paper's arrangement, and one HTML report that sets the paper's figures
//! beside ours. [`Report::write`] makes the files.

mod claims;
pub(crate) mod columns;
mod figures;
mod goals;
pub(crate) mod html;
mod http;
mod https;
mod laslb;
mod machine;
pub(crate) mod plot;
mod points;
mod rows;
pub(crate) mod run;
pub(crate) mod style;
mod tables;
mod xenoflow;

pub use crate::statistics::{Estimate, Line, deviation, median};
pub use claims::{Claim, claims};
pub use figures::{Figure, figures};
pub use goals::{Goal, Verdict, goals};
pub use http::{HttpRow, http_text, write_http};
pub use https::{HttpsRow, https_text, write_https};
pub use laslb::{laslb_text, write_laslb};
pub use machine::Machine;
pub use points::{
    Group, Linearity, NEAR, Point, Results, churns, installs, latencies, linearity, new_flows,
    workers,
};
pub use rows::{ChurnRow, Findings, InstallRow, LatencyRow, NewFlowRow, Row, WorkersRow};
pub use run::{Report, ReportError, csv};
pub use xenoflow::{XenoflowRow, write_xenoflow, xenoflow_text};
