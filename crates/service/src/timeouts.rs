//! How long connections are kept without packets.
use std::collections::BTreeMap;

use flow::ServiceId;

use crate::ServiceTable;

/// How long a connection is kept without packets, by its state, in
/// milliseconds. Connections may be reported up to two ticks of 64 ms late,
/// never early.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timeouts {
    /// Unfinished TCP handshakes, and TCP connections picked up midway that
    /// the server hasn't confirmed.
    pub syn_ms: u32,
    /// Open TCP connections, half-closed ones included: the open half may
    /// still carry data for as long as it likes.
    pub established_ms: u32,
    /// TCP connections closed from both sides: retransmissions of the last
    /// FIN and ACK (TIME-WAIT, RFC 9293 section 3.6).
    pub closing_ms: u32,
    /// TCP connections after a RST.
    pub reset_ms: u32,
    /// TCP connections that one packet has ended, as far as one can tell: open
    /// ones after a RST, and those whose answers go past the load balancer after
    /// the client's FIN. The packet may have been forged, or the server may still
    /// be thinking. Applies while the table has room (`ConnTable::sweep`).
    pub doubtful_ms: u32,
    /// UDP, as long as the server hasn't answered.
    pub udp_ms: u32,
    /// UDP, answered.
    pub udp_stream_ms: u32,
}

impl Default for Timeouts {
    /// 30 s for handshakes, 15 min for open connections, 60 s for closed ones,
    /// 10 s after a RST, 4 min if that or a single FIN may not have been the end
    /// (RFC 7857 section 2.2, RFC 5382 REQ-5), UDP 30 s and, answered, 120 s.
    fn default() -> Self {
        Self {
            syn_ms: 30_000,
            established_ms: 900_000,
            closing_ms: 60_000,
            reset_ms: 10_000,
            doubtful_ms: DOUBTFUL_MS,
            udp_ms: 30_000,
            udp_stream_ms: 120_000,
        }
    }
}

impl Timeouts {
    /// The longest of them, in milliseconds.
    #[must_use]
    pub fn longest_ms(&self) -> u32 {
        let tcp = self.syn_ms.max(self.established_ms).max(self.closing_ms).max(self.reset_ms);
        tcp.max(self.doubtful_ms).max(self.udp_ms).max(self.udp_stream_ms)
    }
}

/// How long NATs are to keep a connection after a RST, or between FIN and FIN:
/// 4 min (RFC 7857 section 2.2, RFC 5382 REQ-5).
pub const DOUBTFUL_MS: u32 = 240_000;

/// The timeouts of all services. A connection's record names its service, so
/// nothing of them is kept with the connection.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServiceTimeouts {
    /// Of services that have none of their own.
    default: Timeouts,
    own: BTreeMap<ServiceId, Timeouts>,
}

impl From<Timeouts> for ServiceTimeouts {
    /// The same for all services.
    fn from(default: Timeouts) -> Self {
        Self { default, own: BTreeMap::new() }
    }
}

impl ServiceTimeouts {
    /// `default`, and the timeouts of their own that services of `table` have,
    /// departed ones included.
    #[must_use]
    pub fn new(default: Timeouts, table: &ServiceTable) -> Self {
        let own = table.all_services().filter_map(|own| Some((own.id(), *own.timeouts()?)));
        Self { default, own: own.collect() }
    }

    /// The timeouts of `service`.
    #[must_use]
    pub fn of(&self, service: ServiceId) -> &Timeouts {
        self.own.get(&service).unwrap_or(&self.default)
    }

    /// The longest time that a connection of any service is kept, in milliseconds.
    #[must_use]
    pub fn longest_ms(&self) -> u32 {
        let all = std::iter::once(&self.default).chain(self.own.values());
        all.map(Timeouts::longest_ms).max().unwrap_or(0)
    }

    /// The longest time that a UDP flow of any service is kept, in milliseconds.
    #[must_use]
    pub fn longest_udp_ms(&self) -> u32 {
        let all = std::iter::once(&self.default).chain(self.own.values());
        all.map(|own| own.udp_ms.max(own.udp_stream_ms)).max().unwrap_or(0)
    }
}
