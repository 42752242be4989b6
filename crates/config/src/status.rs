//! `[status]`: where a running load balancer is asked, and told what to change.
use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::text;

/// Where a running load balancer is asked, and told what to change.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Status {
    /// The path of the Unix socket that `hnlb status`, `hnlb reload` and `hnlb backend` ask. HNLB makes its directory if that is missing and lies below /run.
    pub socket: PathBuf,
    /// The user, by name, that the socket belongs to and that may change things by it, as root may; by default the one that HNLB runs as.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub owner: Option<String>,
    /// The group, by name, that the socket belongs to; by default that of the user that HNLB runs as.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
    /// The permissions of the socket in octal. `0660` lets the members of `group` in: every user but the owner and root may ask for the status, and change nothing.
    #[serde(with = "text::mode")]
    #[schemars(with = "String", extend("format" = "mode"))]
    pub mode: u32,
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
        Self {
            socket: PathBuf::from("/run/hnlb/hnlb.sock"),
            owner: None,
            group: None,
            mode: 0o600,
            state_file: None,
        }
    }
}
