//! Rewrite plans: what NAT does to a packet, compiled once per connection.
use std::net::SocketAddr;

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
    /// New source and destination address, in wire order; the half that `side` doesn't name is unused.
    pub addresses: [u8; 8],
    /// New source and destination port, in wire order.
    pub ports: [u8; 4],
    /// What to add to the complement of the IPv4 header checksum.
    pub net_delta: u16,
    /// What to add to the complement of the TCP or UDP checksum.
    pub transport_delta: u16,
    /// Which half is written.
    pub side: Side,
}

/// A rewrite of an IPv6 packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rewrite6 {
    /// New source and destination address, in wire order; the half that `side` doesn't name is unused.
    pub addresses: [u8; 32],
    /// New source and destination port, in wire order.
    pub ports: [u8; 4],
    /// What to add to the complement of the TCP or UDP checksum.
    pub transport_delta: u16,
    /// Which half is written.
    pub side: Side,
}

impl Rewrite {
    /// The plan that turns packets from `old_src` into packets from `new_src`;
    /// `None` if they are of different families.
    #[must_use]
    pub fn source(old_src: SocketAddr, new_src: SocketAddr) -> Option<Self> {
        Self::compile(Side::Source, (old_src, old_src), (new_src, new_src))
    }

    /// The plan that turns packets to `old_dst` into packets to `new_dst`;
    /// `None` if they are of different families.
    #[must_use]
    pub fn destination(old_dst: SocketAddr, new_dst: SocketAddr) -> Option<Self> {
        Self::compile(Side::Destination, (old_dst, old_dst), (new_dst, new_dst))
    }

    /// The plan that replaces source and destination, each given as (source,
    /// destination); `None` if they are of different families.
    #[must_use]
    pub fn both(old: (SocketAddr, SocketAddr), new: (SocketAddr, SocketAddr)) -> Option<Self> {
        Self::compile(Side::Both, old, new)
    }

    fn compile(
        side: Side,
        old: (SocketAddr, SocketAddr),
        new: (SocketAddr, SocketAddr),
    ) -> Option<Self> {
        let ports = |pair: (SocketAddr, SocketAddr)| {
            let ([a, b], [c, d]) = (pair.0.port().to_be_bytes(), pair.1.port().to_be_bytes());
            [a, b, c, d]
        };
        let (old_ports, new_ports) = (ports(old), ports(new));
        let port_delta = match side {
            Side::Source => checksum::delta(&old_ports[..2], &new_ports[..2]),
            Side::Destination => checksum::delta(&old_ports[2..], &new_ports[2..]),
            Side::Both => checksum::delta(&old_ports, &new_ports),
        };
        if let (Some(old), Some(new)) = (v4_pair(old), v4_pair(new)) {
            let net_delta = address_delta(side, &old, &new);
            return Some(Self::V4(Rewrite4 {
                addresses: new,
                ports: new_ports,
                net_delta,
                transport_delta: checksum::combine(net_delta, port_delta),
                side,
            }));
        }
        let (old, new) = (v6_pair(old)?, v6_pair(new)?);
        Some(Self::V6(Rewrite6 {
            addresses: new,
            ports: new_ports,
            transport_delta: checksum::combine(address_delta(side, &old, &new), port_delta),
            side,
        }))
    }
}

fn address_delta(side: Side, old: &[u8], new: &[u8]) -> u16 {
    let half = old.len() / 2;
    match side {
        Side::Source => checksum::delta(&old[..half], &new[..half]),
        Side::Destination => checksum::delta(&old[half..], &new[half..]),
        Side::Both => checksum::delta(old, new),
    }
}

fn v4_pair(pair: (SocketAddr, SocketAddr)) -> Option<[u8; 8]> {
    let (SocketAddr::V4(src), SocketAddr::V4(dst)) = pair else { return None };
    let mut bytes = [0; 8];
    bytes[..4].copy_from_slice(&src.ip().octets());
    bytes[4..].copy_from_slice(&dst.ip().octets());
    Some(bytes)
}

fn v6_pair(pair: (SocketAddr, SocketAddr)) -> Option<[u8; 32]> {
    let (SocketAddr::V6(src), SocketAddr::V6(dst)) = pair else { return None };
    let mut bytes = [0; 32];
    bytes[..16].copy_from_slice(&src.ip().octets());
    bytes[16..].copy_from_slice(&dst.ip().octets());
    Some(bytes)
}
