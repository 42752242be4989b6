//! What becomes of single packets, and why.
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::Explanation;

/// The answer to a question about packets.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct PacketStories {
    /// A story for each packet, in their order.
    pub packets: Vec<PacketStory>,
}

/// What becomes of a packet, and why.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct PacketStory {
    /// Its number in the question or the capture, from 1.
    pub number: u64,
    /// The port on which it comes in.
    pub port: String,
    /// `tcp` or `udp`; `None`: neither.
    pub protocol: Option<String>,
    /// The sender's address and port.
    pub source: Option<String>,
    /// The receiver's address and port.
    pub destination: Option<String>,
    /// `forwarded`, `forwarded by the NIC`, `answered`, `dropped`, `consumed` or `held`.
    pub verdict: String,
    /// Why that backend, or why none.
    pub why: String,
    /// The service that the packet belongs to.
    pub service: Option<String>,
    /// The backend's address and port.
    pub backend: Option<String>,
    /// The connection's entry in the table.
    pub entry: Option<TableEntry>,
    /// Its rules in the NIC, or why it has none.
    pub rules: Option<Explanation>,
    /// The counters that the packet raises.
    pub counters: Vec<CounterStory>,
    /// The frame that comes in, in hexadecimal.
    pub frame: String,
    /// What leaves.
    pub sent: Vec<DepartureStory>,
}

/// A connection's entry in the table.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct TableEntry {
    /// Whether the packet itself opens the connection.
    pub new: bool,
    /// Its state, before the packet if it is not new.
    pub state: String,
    /// Milliseconds since its last packet that a worker counted.
    pub idle_ms: u64,
    /// `client` if the packet is from the client, `backend` if it is from the backend.
    pub from: String,
    /// The client's address and port.
    pub client: String,
    /// The address and port that the client speaks to.
    pub vip: String,
    /// The backend's address and port.
    pub server: String,
    /// What the backend takes the client for.
    pub local: String,
    /// `none`, `pending`, `installed`: how far the way into the NIC is.
    pub in_nic: String,
}

/// A counter that a packet raises.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct CounterStory {
    /// Its name.
    pub name: String,
    /// What it counts.
    pub help: String,
}

/// A frame that leaves.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct DepartureStory {
    /// The port on which it leaves.
    pub port: String,
    /// How it differs from the frame that came in.
    pub changes: Vec<FieldChange>,
    /// Its bytes from the Ethernet header on, in hexadecimal.
    pub frame: String,
}

/// A field that differs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct FieldChange {
    /// Its name.
    pub field: String,
    /// What came in.
    pub from: String,
    /// What leaves.
    pub to: String,
}
