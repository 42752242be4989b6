//! The packets that the rules of the catalogue match, and what is looked for in those
//! that come out of the card.
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use wire::{FlowKey, Headers, Mac, Transport, ipv4, ipv6};

use crate::card::Facts;
use crate::frame::{self, flow_of};

/// Networks for benchmarks (RFC 2544 and 5180): nobody is there.
pub(super) const CLIENT_V4: Ipv4Addr = Ipv4Addr::new(198, 18, 3, 7);
pub(super) const VIP_V4: Ipv4Addr = Ipv4Addr::new(198, 19, 255, 1);
pub(super) const NEW_V4: Ipv4Addr = Ipv4Addr::new(198, 19, 255, 2);
const CLIENT_V6: Ipv6Addr = Ipv6Addr::new(0x2001, 2, 0, 0, 0, 0, 0, 7);
pub(super) const VIP_V6: Ipv6Addr = Ipv6Addr::new(0x2001, 2, 0, 1, 0, 0, 0, 1);
pub(super) const NEW_V6: Ipv6Addr = Ipv6Addr::new(0x2001, 2, 0, 1, 0, 0, 0, 2);
const CLIENT_PORT: u16 = 40_009;
pub(super) const PORT: u16 = 9;
pub(super) const NEW_PORT: u16 = 10;
pub(super) const NEW_MAC: Mac = Mac([2, 0, 0x5e, 0, 0x53, 9]);
pub(super) const VLAN: u16 = 7;
/// What is added to TCP's numbers: it wraps round.
pub(super) const NUMBER: u32 = 0xffff_fff0;

/// TCP or UDP over IPv4 or IPv6.
pub(super) fn flow(proto: Transport, ipv6: bool) -> Option<FlowKey> {
    let (client, vip): (IpAddr, IpAddr) = match ipv6 {
        false => (CLIENT_V4.into(), VIP_V4.into()),
        true => (CLIENT_V6.into(), VIP_V6.into()),
    };
    FlowKey::new(proto, SocketAddr::new(client, CLIENT_PORT), SocketAddr::new(vip, PORT))
}

/// A packet of [`flow`] to the card.
pub(super) fn packet(facts: &Facts, flow: &FlowKey, vlan: Option<u16>) -> Option<Vec<u8>> {
    frame::build(flow, (facts.peer, facts.mac), vlan)
}

/// Whether the checksums are right, behind headers that were changed.
fn is_sound(bytes: &[u8]) -> bool {
    let header = |at: usize| bytes.get(at..);
    let ip = match bytes.get(12..14) {
        Some([0x08, 0x00]) => header(14)
            .and_then(|ip| ipv4::Datagram::parse(ip).ok())
            .is_some_and(|datagram| datagram.checksum_is_right()),
        Some([0x86, 0xdd]) => header(14).is_some_and(|ip| ipv6::Datagram::parse(ip).is_ok()),
        _ => false,
    };
    let transport =
        Headers::parse(bytes).is_ok_and(|headers| headers.transport_checksum_is_right(bytes));
    ip && transport
}

/// The four bytes from `at`.
fn number(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_be_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

const MACS: usize = 14;
const TTL_V4: usize = MACS + 8;
const HOPS_V6: usize = MACS + 7;
const SEQUENCE: usize = MACS + ipv4::LEN + 4;
const ACKNOWLEDGEMENT: usize = SEQUENCE + 4;

pub(super) fn whole(bytes: &[u8]) -> bool {
    frame::is_ours(bytes) && is_sound(bytes)
}

pub(super) fn new_macs(bytes: &[u8]) -> bool {
    whole(bytes) && bytes.get(..6) == Some(&NEW_MAC.0) && bytes.get(6..12) == Some(&NEW_MAC.0)
}

pub(super) fn new_destination(bytes: &[u8]) -> bool {
    let to = flow_of(bytes).map(|flow| flow.dst().ip());
    whole(bytes) && (to == Some(NEW_V4.into()) || to == Some(NEW_V6.into()))
}

pub(super) fn new_source(bytes: &[u8]) -> bool {
    let from = flow_of(bytes).map(|flow| flow.src().ip());
    whole(bytes) && (from == Some(NEW_V4.into()) || from == Some(NEW_V6.into()))
}

pub(super) fn new_ports(bytes: &[u8]) -> bool {
    let ports = flow_of(bytes).map(|flow| (flow.src().port(), flow.dst().port()));
    whole(bytes) && ports == Some((NEW_PORT, NEW_PORT))
}

pub(super) fn fewer_hops_v4(bytes: &[u8]) -> bool {
    whole(bytes) && bytes.get(TTL_V4) == Some(&63)
}

pub(super) fn fewer_hops_v6(bytes: &[u8]) -> bool {
    whole(bytes) && bytes.get(HOPS_V6) == Some(&63)
}

pub(super) fn new_sequence(bytes: &[u8]) -> bool {
    whole(bytes) && number(bytes, SEQUENCE) == Some(1_u32.wrapping_add(NUMBER))
}

pub(super) fn new_acknowledgement(bytes: &[u8]) -> bool {
    whole(bytes) && number(bytes, ACKNOWLEDGEMENT) == Some(1_u32.wrapping_add(NUMBER))
}

/// Behind another IP header: longer than any packet of [`flow`] by itself.
pub(super) fn tunnelled(bytes: &[u8]) -> bool {
    frame::is_ours(bytes) && bytes.len() >= MACS + 2 * ipv4::LEN + 20 + 18
}
