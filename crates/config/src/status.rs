//! `[status]`: where counters are asked for.
use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Where counters are asked for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Status {
    /// The path of the Unix socket that `hnlb status` asks.
    pub socket: PathBuf,
}

impl Default for Status {
    fn default() -> Self {
        Self { socket: PathBuf::from("/run/hnlb/hnlb.sock") }
    }
}
