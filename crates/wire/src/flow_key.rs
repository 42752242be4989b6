//! The 5-tuple: what a connection table and a match table are keyed by.
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use flow::Transport;

/// An IPv4 5-tuple, as a packet carries it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FlowV4 {
    /// Source address.
    pub src: Ipv4Addr,
    /// Destination address.
    pub dst: Ipv4Addr,
    /// Source port.
    pub sport: u16,
    /// Destination port.
    pub dport: u16,
    /// TCP or UDP.
    pub proto: Transport,
}

/// An IPv6 5-tuple, as a packet carries it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FlowV6 {
    /// Source address.
    pub src: Ipv6Addr,
    /// Destination address.
    pub dst: Ipv6Addr,
    /// Source port.
    pub sport: u16,
    /// Destination port.
    pub dport: u16,
    /// TCP or UDP.
    pub proto: Transport,
}

/// A 5-tuple of either family.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum FlowKey {
    /// IPv4.
    V4(FlowV4),
    /// IPv6.
    V6(FlowV6),
}

impl FlowKey {
    /// The flow from `src` to `dst`; `None` if they are of different families.
    #[must_use]
    pub const fn new(proto: Transport, src: SocketAddr, dst: SocketAddr) -> Option<Self> {
        match (src, dst) {
            (SocketAddr::V4(s), SocketAddr::V4(d)) => Some(Self::V4(FlowV4 {
                src: *s.ip(),
                dst: *d.ip(),
                sport: s.port(),
                dport: d.port(),
                proto,
            })),
            (SocketAddr::V6(s), SocketAddr::V6(d)) => Some(Self::V6(FlowV6 {
                src: *s.ip(),
                dst: *d.ip(),
                sport: s.port(),
                dport: d.port(),
                proto,
            })),
            _ => None,
        }
    }

    /// The flow of the answers.
    #[must_use]
    pub const fn reversed(self) -> Self {
        match self {
            Self::V4(FlowV4 { src, dst, sport, dport, proto }) => {
                Self::V4(FlowV4 { src: dst, dst: src, sport: dport, dport: sport, proto })
            }
            Self::V6(FlowV6 { src, dst, sport, dport, proto }) => {
                Self::V6(FlowV6 { src: dst, dst: src, sport: dport, dport: sport, proto })
            }
        }
    }

    /// TCP or UDP.
    #[must_use]
    pub const fn proto(self) -> Transport {
        match self {
            Self::V4(flow) => flow.proto,
            Self::V6(flow) => flow.proto,
        }
    }

    /// Source address and port.
    #[must_use]
    pub const fn src(self) -> SocketAddr {
        match self {
            Self::V4(flow) => SocketAddr::new(IpAddr::V4(flow.src), flow.sport),
            Self::V6(flow) => SocketAddr::new(IpAddr::V6(flow.src), flow.sport),
        }
    }

    /// Destination address and port.
    #[must_use]
    pub const fn dst(self) -> SocketAddr {
        match self {
            Self::V4(flow) => SocketAddr::new(IpAddr::V4(flow.dst), flow.dport),
            Self::V6(flow) => SocketAddr::new(IpAddr::V6(flow.dst), flow.dport),
        }
    }
}

impl fmt::Display for FlowKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} > {}", self.proto(), self.src(), self.dst())
    }
}
