//! `[conntrack]` and `[fragments]`: memory for connections and datagrams.
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::text;

/// The connection table. Its memory is allocated once, at start-up.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Conntrack {
    /// The number of IPv4 connections that the table holds. When the table is full, Maglev serves further connections without state.
    #[schemars(range(min = 64, max = 33_554_432))]
    pub connections: u32,
    /// The number of IPv6 connections that the table holds.
    #[schemars(range(min = 64, max = 33_554_432))]
    pub connections_v6: u32,
    /// The idle time after which a TCP connection is removed while its handshake is incomplete. Timeouts of embryonic connections (`tcp_syn`, `udp_unanswered`) halve whenever the free half of the table has halved, down to 1 second.
    #[serde(with = "text::duration")]
    #[schemars(with = "String", extend("format" = "time-span", "x-minimum" = "100ms", "x-maximum" = "1h"))]
    pub tcp_syn: Duration,
    /// The idle time after which an established TCP connection is removed.
    #[serde(with = "text::duration")]
    #[schemars(with = "String", extend("format" = "time-span", "x-minimum" = "100ms", "x-maximum" = "168h"))]
    pub tcp_established: Duration,
    /// The idle time after which a closed TCP connection (FIN in both directions, or RST) is removed. After a RST of an open connection, and after the FIN of a client whose answers bypass the load balancer, the time is 4 minutes while an eighth of the table is free.
    #[serde(with = "text::duration")]
    #[schemars(with = "String", extend("format" = "time-span", "x-minimum" = "100ms", "x-maximum" = "1h"))]
    pub tcp_closing: Duration,
    /// The idle time after which a UDP flow is removed.
    #[serde(with = "text::duration")]
    #[schemars(with = "String", extend("format" = "time-span", "x-minimum" = "100ms", "x-maximum" = "24h"))]
    pub udp: Duration,
    /// The idle time after which a UDP flow whose server has not answered is removed; at most `udp`.
    #[serde(with = "text::duration")]
    #[schemars(with = "String", extend("format" = "time-span", "x-minimum" = "100ms", "x-maximum" = "24h"))]
    pub udp_unanswered: Duration,
    /// How many connections of one service may be embryonic (the server has not answered, or the client has sent nothing since), in percent of the table's free room; 0: no limit. With 100, a flood of one service takes half of an empty table. Maglev serves further ones without state; in mode `fullnat` they are dropped.
    #[schemars(range(min = 0, max = 1000))]
    pub embryonic_service: u32,
    /// The same limit for the clients of one network, an IPv4 /24 or an IPv6 /64, across all services.
    #[schemars(range(min = 0, max = 1000))]
    pub embryonic_source: u32,
}

/// Idle times of a service's connections; each is by default that of `[conntrack]`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Timeouts {
    /// As `conntrack.tcp_syn`.
    #[serde(with = "text::optional_duration", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>", extend("format" = "time-span", "x-minimum" = "100ms", "x-maximum" = "1h"))]
    pub tcp_syn: Option<Duration>,
    /// As `conntrack.tcp_established`.
    #[serde(with = "text::optional_duration", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>", extend("format" = "time-span", "x-minimum" = "100ms", "x-maximum" = "168h"))]
    pub tcp_established: Option<Duration>,
    /// As `conntrack.tcp_closing`.
    #[serde(with = "text::optional_duration", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>", extend("format" = "time-span", "x-minimum" = "100ms", "x-maximum" = "1h"))]
    pub tcp_closing: Option<Duration>,
    /// As `conntrack.udp`.
    #[serde(with = "text::optional_duration", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>", extend("format" = "time-span", "x-minimum" = "100ms", "x-maximum" = "24h"))]
    pub udp: Option<Duration>,
    /// As `conntrack.udp_unanswered`.
    #[serde(with = "text::optional_duration", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>", extend("format" = "time-span", "x-minimum" = "100ms", "x-maximum" = "24h"))]
    pub udp_unanswered: Option<Duration>,
}

impl Timeouts {
    /// Whether nothing differs from `[conntrack]`.
    #[must_use]
    pub fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

impl Conntrack {
    /// The idle times of connections; those of `own` count where given.
    #[must_use]
    pub fn timeouts(&self, own: &Timeouts) -> service::Timeouts {
        let millis = |own: Option<Duration>, general: Duration| {
            u32::try_from(own.unwrap_or(general).as_millis()).unwrap_or(u32::MAX)
        };
        let established_ms = millis(own.tcp_established, self.tcp_established);
        let closing_ms = millis(own.tcp_closing, self.tcp_closing);
        let udp_stream_ms = millis(own.udp, self.udp);
        service::Timeouts {
            syn_ms: millis(own.tcp_syn, self.tcp_syn),
            established_ms,
            closing_ms,
            reset_ms: closing_ms,
            // As long as for a NAT, but no longer than an open connection.
            doubtful_ms: service::DOUBTFUL_MS.min(established_ms).max(closing_ms),
            udp_ms: millis(own.udp_unanswered, self.udp_unanswered).min(udp_stream_ms),
            udp_stream_ms,
        }
    }
}

impl Default for Conntrack {
    fn default() -> Self {
        Self {
            connections: 262_144,
            connections_v6: 65_536,
            tcp_syn: Duration::from_secs(30),
            // RFC 5382 REQ-5: at least 2 hours and 4 minutes.
            tcp_established: Duration::from_secs(7440),
            tcp_closing: Duration::from_secs(30),
            // RFC 4787 REQ-5: 5 minutes or more.
            udp: Duration::from_secs(300),
            udp_unanswered: Duration::from_secs(60),
            embryonic_service: 100,
            embryonic_source: 25,
        }
    }
}

/// Reassembly of fragmented datagrams.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Fragments {
    /// The number of datagrams whose fragments each worker tracks at a time. A worker holds a quarter as many fragments that arrive before the first one of their datagram, those of one source address in an eighth of that room; the oldest make room for newer ones.
    #[schemars(range(min = 16, max = 1_048_576))]
    pub datagrams: u32,
    /// How long a worker waits for the missing fragments of a datagram.
    #[serde(with = "text::duration")]
    #[schemars(with = "String", extend("format" = "time-span", "x-minimum" = "10ms", "x-maximum" = "60s"))]
    pub timeout: Duration,
}

impl Default for Fragments {
    fn default() -> Self {
        Self { datagrams: 4096, timeout: Duration::from_secs(1) }
    }
}
