//! `[status]`: where a running load balancer is asked, and told what to change.
use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Where a running load balancer is asked, and told what to change.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Status {
    /// The path of the Unix socket that `hnlb status`, `hnlb reload` and `hnlb backend` ask. Only the user that HNLB runs as may use it.
    pub socket: PathBuf,
    /// The path of the file that remembers over a restart which backends are drained; by default that of the socket with `.state` behind it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub state_file: Option<PathBuf>,
}

impl Status {
    /// The file that remembers which backends are drained.
    #[must_use]
    pub fn state_path(&self) -> PathBuf {
        self.state_file.clone().unwrap_or_else(|| {
            let mut path = self.socket.clone().into_os_string();
            path.push(".state");
            PathBuf::from(path)
        })
    }
}

impl Default for Status {
    fn default() -> Self {
        Self { socket: PathBuf::from("/run/hnlb/hnlb.sock"), state_file: None }
    }
}
