//! `[conntrack]` and `[fragments]`: memory for connections and datagrams.
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::text;

/// The connection table. Its memory is taken once, at start.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Conntrack {
    /// IPv4 connections. When they are all in use, more are served without state, by Maglev.
    #[schemars(range(min = 64, max = 33_554_432))]
    pub connections: u32,
    /// IPv6 connections, likewise.
    #[schemars(range(min = 64, max = 33_554_432))]
    pub connections_v6: u32,
    /// Silence after which a TCP connection is forgotten whose handshake isn't complete.
    #[serde(with = "text::duration")]
    #[schemars(with = "String", extend("format" = "duration", "x-minimum" = "100ms", "x-maximum" = "1h"))]
    pub tcp_syn: Duration,
    /// Silence after which an established TCP connection is forgotten.
    #[serde(with = "text::duration")]
    #[schemars(with = "String", extend("format" = "duration", "x-minimum" = "100ms", "x-maximum" = "168h"))]
    pub tcp_established: Duration,
    /// Silence after which a TCP connection is forgotten that was closed (FIN both ways, or RST).
    #[serde(with = "text::duration")]
    #[schemars(with = "String", extend("format" = "duration", "x-minimum" = "100ms", "x-maximum" = "1h"))]
    pub tcp_closing: Duration,
    /// Silence after which a UDP flow is forgotten.
    #[serde(with = "text::duration")]
    #[schemars(with = "String", extend("format" = "duration", "x-minimum" = "100ms", "x-maximum" = "24h"))]
    pub udp: Duration,
}

impl Default for Conntrack {
    fn default() -> Self {
        Self {
            connections: 262_144,
            connections_v6: 65_536,
            tcp_syn: Duration::from_secs(30),
            tcp_established: Duration::from_secs(3600),
            tcp_closing: Duration::from_secs(30),
            udp: Duration::from_secs(60),
        }
    }
}

/// Reassembly of fragmented datagrams.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Fragments {
    /// Datagrams of which fragments are held at a time, by each worker.
    #[schemars(range(min = 16, max = 1_048_576))]
    pub datagrams: u32,
    /// How long the missing fragments of a datagram are waited for.
    #[serde(with = "text::duration")]
    #[schemars(with = "String", extend("format" = "duration", "x-minimum" = "10ms", "x-maximum" = "60s"))]
    pub timeout: Duration,
}

impl Default for Fragments {
    fn default() -> Self {
        Self { datagrams: 4096, timeout: Duration::from_secs(1) }
    }
}
