//! What can be asked of a running load balancer, and what it answers.
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{CaptureOrder, Change, Problem, Question};

/// A request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Request {
    /// The report of everything.
    Status,
    /// Why the connections of a client are, or are not, in hardware.
    Connection {
        /// The client's address and port.
        client: SocketAddr,
    },
    /// The connections in the table.
    Connections(Filter),
    /// How many connections the NIC matches, and why it does not match the others.
    OffloadCauses,
    /// What becomes of packets, and why.
    Explain(Question),
    /// Packets are to be captured.
    StartCapture(CaptureOrder),
    /// What a capture has caught since this was last asked.
    TakeCapture {
        /// The capture's number.
        id: u64,
    },
    /// A capture is to end; what it has caught.
    StopCapture {
        /// The capture's number.
        id: u64,
    },
    /// VIPs are to be withdrawn, or announced again; what is announced.
    Announce {
        /// Whether all are to be withdrawn; `None`: nothing is to change.
        withdraw: Option<bool>,
    },
    /// The configuration in force.
    Configuration,
    /// Services or backends are to change.
    Change(Change),
    /// A backend is to get no new connections.
    Drain {
        /// The service's name.
        service: String,
        /// The backend's address.
        backend: IpAddr,
    },
    /// A drained backend is to serve again.
    Restore {
        /// The service's name.
        service: String,
        /// The backend's address.
        backend: IpAddr,
    },
    /// The configuration is to be read again.
    Reload {
        /// The file; `None`: the one that is in force.
        file: Option<PathBuf>,
        /// Nothing is to change: only the steps are wanted.
        dry_run: bool,
    },
}

/// Which connections are wanted, and which part of them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Filter {
    /// Only those of this client's address.
    #[serde(default)]
    pub client: Option<IpAddr>,
    /// Only those of the service with this name.
    #[serde(default)]
    pub service: Option<String>,
    /// Only those of backends with this address.
    #[serde(default)]
    pub backend: Option<IpAddr>,
    /// The order; by default that of the table.
    #[serde(default)]
    pub top: Option<Top>,
    /// How many to leave out, in that order.
    #[serde(default)]
    pub skip: u64,
    /// How many to show, at most 1000.
    #[serde(default = "Filter::default_limit")]
    #[schemars(range(max = 1000))]
    pub limit: u16,
}

/// What comes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Top {
    /// The connection with the most packets per second, among those whose rates are
    /// measured: those with an entry in the NIC, and the heaviest others.
    Rate,
}

impl Filter {
    /// The most connections that are shown at once.
    pub const MOST: u16 = 1000;

    const fn default_limit() -> u16 {
        100
    }
}

/// The configuration in force: that of the file, and what the control API has changed
/// since the file was read.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct InForce {
    /// The file that was read last.
    pub file: PathBuf,
    /// The configuration.
    pub config: config::Config,
}

/// What a change of services or backends did.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Changed {
    /// What has changed, one a line; nothing if all was so already.
    pub steps: Vec<String>,
    /// What is allowed and unwise in the configuration.
    pub warnings: Vec<String>,
}

/// What a drain or a restore did.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Steered {
    /// The part of all client addresses that changed their backend.
    pub moved: f64,
    /// Entries before.
    pub entries_before: usize,
    /// Entries now.
    pub entries_after: usize,
    /// Connections of the backend, which stay; `None` if the service has none.
    pub connections: Option<u64>,
    /// Backends of the service that take clients or connections now.
    pub serving: usize,
}

/// What a reload did, or would do.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Reloaded {
    /// The file that was read.
    pub file: PathBuf,
    /// What changes, one a line.
    pub steps: Vec<String>,
    /// Of a dry run: the keys that differ and that only a restart can change. A reload
    /// would be refused for them.
    pub restart: Vec<Problem>,
    /// What is allowed and unwise in the configuration.
    pub warnings: Vec<String>,
    /// Whether nothing was done.
    pub dry_run: bool,
}
