//! What a service or a backend has carried.
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What has been sent on for a service or a backend since it came into the configuration,
/// by workers and by NICs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct TrafficStatus {
    /// Packets to backends.
    pub packets_to_backend: u64,
    /// Bytes of those, from the Ethernet header on, without VLAN tag and outer headers.
    pub bytes_to_backend: u64,
    /// Packets from backends to clients; in one-way modes they don't pass the load balancer.
    pub packets_to_client: u64,
    /// Bytes of those.
    pub bytes_to_client: u64,
    /// Connections put into the connection table.
    pub opened: u64,
    /// RSTs among the packets to backends.
    pub resets_by_client: u64,
    /// RSTs among the packets to clients.
    pub resets_by_backend: u64,
    /// New connections whose first answer was a RST.
    pub refused: u64,
}

impl TrafficStatus {
    /// Adds what `other` has carried.
    pub const fn add(&mut self, other: &Self) {
        self.packets_to_backend += other.packets_to_backend;
        self.bytes_to_backend += other.bytes_to_backend;
        self.packets_to_client += other.packets_to_client;
        self.bytes_to_client += other.bytes_to_client;
        self.opened += other.opened;
        self.resets_by_client += other.resets_by_client;
        self.resets_by_backend += other.resets_by_backend;
        self.refused += other.refused;
    }
}

/// What a service or a backend carries in a second; `None` in the first picture.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct TrafficPicture {
    /// Packets, both ways.
    pub packets: Option<f64>,
    /// Bytes to backends.
    pub bytes_to_backend: Option<f64>,
    /// Bytes to clients.
    pub bytes_to_client: Option<f64>,
    /// Connections put into the connection table.
    pub opened: Option<f64>,
    /// RSTs, both ways.
    pub resets: Option<f64>,
}

impl TrafficPicture {
    /// The rates from `before` to `now`, which is `seconds` later.
    #[must_use]
    pub fn between(before: Option<&TrafficStatus>, now: &TrafficStatus, seconds: f64) -> Self {
        let rate = |count: fn(&TrafficStatus) -> u64| {
            before.map(|before| count(now).saturating_sub(count(before)) as f64 / seconds)
        };
        Self {
            packets: rate(|own| own.packets_to_backend + own.packets_to_client),
            bytes_to_backend: rate(|own| own.bytes_to_backend),
            bytes_to_client: rate(|own| own.bytes_to_client),
            opened: rate(|own| own.opened),
            resets: rate(|own| own.resets_by_client + own.resets_by_backend),
        }
    }
}
