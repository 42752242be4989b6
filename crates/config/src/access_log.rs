//! `[access_log]`: lines about requests.
use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A file with a line of JSON for each request, or for a sample of them, to services with `protocol = "http"`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AccessLog {
    /// The absolute path of the log file. When the file is moved away, as logrotate does, HNLB opens a new one within a second.
    pub file: PathBuf,
    /// One in this many requests that a worker sees is logged; 1: every request.
    #[serde(default = "every")]
    #[schemars(range(min = 1, max = 1_000_000))]
    pub sample: u32,
}

const fn every() -> u32 {
    1
}
