//! Packets of which it is asked what becomes of them.
use std::net::SocketAddr;

use flow::Transport;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What becomes of these packets? They are served in their order over a copy of the
/// load balancer's state, so that a SYN opens the connection of the packets behind it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Question {
    /// The packets, at most 256.
    #[schemars(length(max = 256))]
    pub packets: Vec<Probe>,
}

impl Question {
    /// The most packets in one question.
    pub const MOST: usize = 256;
}

/// A packet.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Probe {
    /// One without data, made for a 5-tuple, which comes in on the interface that leads
    /// to its source.
    Flow(FlowProbe),
    /// One that is given whole.
    Frame(FrameProbe),
}

/// A 5-tuple.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FlowProbe {
    /// TCP or UDP.
    pub protocol: Transport,
    /// The sender's address and port.
    pub source: SocketAddr,
    /// The receiver's address and port.
    pub destination: SocketAddr,
    /// TCP control bits by their first letters, as in `SA`: S, A, F, R, P. By default an
    /// ACK if the table has the connection, and else a SYN.
    #[serde(default)]
    pub flags: Option<String>,
}

/// A frame.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FrameProbe {
    /// The port on which it comes in, by its name in the configuration; by default the
    /// first.
    #[serde(default)]
    pub port: Option<String>,
    /// Its bytes from the Ethernet header on, in hexadecimal.
    pub frame: String,
}
