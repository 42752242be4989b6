//! Rewrite plans: what NAT does to a packet, compiled once per connection.
use std::net::{IpAddr, SocketAddr};

use crate::checksum;

/// Which endpoints of a packet a plan replaces.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Side {
    /// Source address and port.
    Source,
    /// Destination address and port.
    Destination,
    /// All four fields.
    Both,
}

impl Side {
    /// Whether the source is replaced.
    #[must_use]
    pub const fn source(self) -> bool {
        matches!(self, Self::Source | Self::Both)
    }

    /// Whether the destination is replaced.
    #[must_use]
    pub const fn destination(self) -> bool {
        matches!(self, Self::Destination | Self::Both)
    }
}

/// A compiled rewrite of addresses and ports, with the checksum changes worked
/// out beforehand (RFC 1624). It is right only for packets that carry the old
/// endpoints it was compiled from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rewrite {
    /// For IPv4 packets.
    V4(Rewrite4),
    /// For IPv6 packets.
    V6(Rewrite6),
}

/// A rewrite of an IPv4 packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rewrite4 {
    /// New source and destination address, in wire order; the half that `side` doesn't name is zero.
    pub addresses: [u8; 8],
    /// New source and destination port, in wire order; what `port_side` doesn't name is zero.
    pub ports: [u8; 4],
    /// What to add to the complement of the IPv4 header checksum.
    pub net_delta: u16,
    /// What to add to the complement of the TCP or UDP checksum.
    pub transport_delta: u16,
    /// Which addresses are written.
    pub side: Side,
    /// Which ports are written; `None` leaves both as they are.
    pub port_side: Option<Side>,
}

/// A rewrite of an IPv6 packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rewrite6 {
    /// New source and destination address, in wire order; the half that `side` doesn't name is zero.
    pub addresses: [u8; 32],
    /// New source and destination port, in wire order; what `port_side` doesn't name is zero.
    pub ports: [u8; 4],
    /// What to add to the complement of the TCP or UDP checksum.
    pub transport_delta: u16,
    /// Which addresses are written.
    pub side: Side,
    /// Which ports are written; `None` leaves both as they are.
    pub port_side: Option<Side>,
}

impl Rewrite {
    /// The plan that turns packets from `old_src` into packets from `new_src`;
    /// `None` if they are of different families.
    #[must_use]
    pub fn source(old_src: SocketAddr, new_src: SocketAddr) -> Option<Self> {
        let (old, new) = ((old_src, old_src), (new_src, new_src));
        Self::compile(Side::Source, Some(Side::Source), old, new)
    }

    /// The plan that turns packets to `old_dst` into packets to `new_dst`;
    /// `None` if they are of different families.
    #[must_use]
    pub fn destination(old_dst: SocketAddr, new_dst: SocketAddr) -> Option<Self> {
        let (old, new) = ((old_dst, old_dst), (new_dst, new_dst));
        Self::compile(Side::Destination, Some(Side::Destination), old, new)
    }

    /// The plan that replaces source and destination, each given as (source,
    /// destination); `None` if they are of different families.
    #[must_use]
    pub fn both(old: (SocketAddr, SocketAddr), new: (SocketAddr, SocketAddr)) -> Option<Self> {
        Self::compile(Side::Both, Some(Side::Both), old, new)
    }

    /// As [`source`](Self::source), for packets of any source port, which they keep.
    #[must_use]
    pub fn source_address(old_src: IpAddr, new_src: IpAddr) -> Option<Self> {
        let (old, new) = (SocketAddr::new(old_src, 0), SocketAddr::new(new_src, 0));
        Self::compile(Side::Source, None, (old, old), (new, new))
    }

    /// As [`destination`](Self::destination), for packets to any port, which they keep.
    #[must_use]
    pub fn destination_address(old_dst: IpAddr, new_dst: IpAddr) -> Option<Self> {
        let (old, new) = (SocketAddr::new(old_dst, 0), SocketAddr::new(new_dst, 0));
        Self::compile(Side::Destination, None, (old, old), (new, new))
    }

    /// The general plan: replaces the addresses that `side` names and the ports that
    /// `port_side` names, each given as (source, destination). Parts that are not
    /// named are not read, but must be of the same family; `None` if they are not.
    #[must_use]
    pub fn compile(
        side: Side,
        port_side: Option<Side>,
        old: (SocketAddr, SocketAddr),
        new: (SocketAddr, SocketAddr),
    ) -> Option<Self> {
        let (old_ports, new_ports) = (ports(port_side, old), ports(port_side, new));
        let port_delta = checksum::delta(&old_ports, &new_ports);
        if let (Some(old), Some(new)) = (v4_pair(side, old), v4_pair(side, new)) {
            let net_delta = checksum::delta(&old, &new);
            return Some(Self::V4(Rewrite4 {
                addresses: new,
                ports: new_ports,
                net_delta,
                transport_delta: checksum::combine(net_delta, port_delta),
                side,
                port_side,
            }));
        }
        let (old, new) = (v6_pair(side, old)?, v6_pair(side, new)?);
        Some(Self::V6(Rewrite6 {
            addresses: new,
            ports: new_ports,
            transport_delta: checksum::combine(checksum::delta(&old, &new), port_delta),
            side,
            port_side,
        }))
    }
}

/// The ports that `side` names; the others are zero.
fn ports(side: Option<Side>, pair: (SocketAddr, SocketAddr)) -> [u8; 4] {
    let mut bytes = [0; 4];
    if side.is_some_and(Side::source) {
        bytes[..2].copy_from_slice(&pair.0.port().to_be_bytes());
    }
    if side.is_some_and(Side::destination) {
        bytes[2..].copy_from_slice(&pair.1.port().to_be_bytes());
    }
    bytes
}

fn v4_pair(side: Side, pair: (SocketAddr, SocketAddr)) -> Option<[u8; 8]> {
    let (SocketAddr::V4(src), SocketAddr::V4(dst)) = pair else { return None };
    let mut bytes = [0; 8];
    if side.source() {
        bytes[..4].copy_from_slice(&src.ip().octets());
    }
    if side.destination() {
        bytes[4..].copy_from_slice(&dst.ip().octets());
    }
    Some(bytes)
}

fn v6_pair(side: Side, pair: (SocketAddr, SocketAddr)) -> Option<[u8; 32]> {
    let (SocketAddr::V6(src), SocketAddr::V6(dst)) = pair else { return None };
    let mut bytes = [0; 32];
    if side.source() {
        bytes[..16].copy_from_slice(&src.ip().octets());
    }
    if side.destination() {
        bytes[16..].copy_from_slice(&dst.ip().octets());
    }
    Some(bytes)
}
