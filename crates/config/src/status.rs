//! `[status]`: where a running load balancer is asked, and told what to change.
use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::text;

/// The socket through which a running load balancer is queried and changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Status {
    /// The path of the Unix socket that `hnlb status`, `hnlb reload` and `hnlb backend` connect to. HNLB creates its directory if that is missing and lies below /run.
    pub socket: PathBuf,
    /// The user, by name, that owns the socket and that, like root, may make changes through it; by default the user that HNLB runs as.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub owner: Option<String>,
    /// The group, by name, of the socket; by default that of the user that HNLB runs as.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
    /// The permissions of the socket in octal. `0660` admits the members of `group`: every user except the owner and root may read the status but change nothing.
    #[serde(with = "text::mode")]
    #[schemars(with = "String", extend("format" = "mode"))]
    pub mode: u32,
    /// The path of the file that keeps across a restart which backends are drained; by default the socket's path with `.state` appended.
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
