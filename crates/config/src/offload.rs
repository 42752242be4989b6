//! `[offload]`: which connections go into the match table of the NIC, and how.
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Offload of connections into the match table of the NIC.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Offload {
    /// How the NIC tells the processor what it matched.
    pub encoding: Encoding,
    /// When a connection is offloaded.
    pub admit: Admit,
    /// With the encoding `queue`: of so many matched packets one is looked up in the connection table, so that its connection doesn't age.
    #[schemars(range(min = 1, max = 65535))]
    pub sample: u32,
    /// Rules that may wait to be installed or removed; when they are more, connections stay in software.
    #[schemars(range(min = 64, max = 1_048_576))]
    pub queue_depth: u32,
}

impl Default for Offload {
    fn default() -> Self {
        Self {
            encoding: Encoding::default(),
            admit: Admit::default(),
            sample: 64,
            queue_depth: 4096,
        }
    }
}

/// How the NIC tells the processor what it matched.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Encoding {
    /// `mark` if a probe at start shows that the device can, else `queue`, else `off`.
    #[default]
    Auto,
    /// The receive queue is the backend: no lookup, but as many backends as queues.
    Queue,
    /// The packet's mark is the connection: any number of backends.
    Mark,
    /// No offload: a software load balancer.
    Off,
}

/// When a connection is offloaded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Admit {
    /// When both sides have sent packets, so that scans and floods don't fill the table.
    #[default]
    Established,
    /// With its first packet.
    FirstPacket,
}
