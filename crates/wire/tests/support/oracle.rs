//! The other opinion: etherparse.
use std::net::{IpAddr, SocketAddr};

use etherparse::{NetSlice, SlicedPacket, TransportSlice};

/// Writes the checksums that etherparse computes for a whole datagram: IPv4
/// header, TCP, UDP (unless `bare`), ICMP. A first fragment's transport
/// checksum is left alone.
pub(crate) fn repair(frame: &mut [u8], bare: bool) {
    for (at, value) in checksums(frame, bare) {
        frame[at..at + 2].copy_from_slice(&value.to_be_bytes());
    }
}

/// Whether every checksum in `frame` is what etherparse computes; bit for bit.
pub(crate) fn is_right(frame: &[u8]) -> bool {
    checksums(frame, false).into_iter().all(|(at, value)| frame[at..at + 2] == value.to_be_bytes())
}

/// Where checksums are, and what they should be.
pub(crate) fn checksums(frame: &[u8], bare: bool) -> Vec<(usize, u16)> {
    let sliced = SlicedPacket::from_ethernet(frame).unwrap();
    let offset = |part: &[u8]| part.as_ptr() as usize - frame.as_ptr() as usize;
    let mut found = Vec::new();
    let (src, dst) = addresses(&sliced);
    if let Some(NetSlice::Ipv4(ip)) = &sliced.net {
        let header = ip.header();
        found.push((offset(header.slice()) + 10, header.to_header().calc_header_checksum()));
    }
    match sliced.transport {
        Some(TransportSlice::Tcp(tcp)) => {
            let value = match (src, dst) {
                (IpAddr::V4(s), IpAddr::V4(d)) => tcp.calc_checksum_ipv4(s.octets(), d.octets()),
                (IpAddr::V6(s), IpAddr::V6(d)) => tcp.calc_checksum_ipv6(s.octets(), d.octets()),
                _ => unreachable!(),
            };
            found.push((offset(tcp.slice()) + 16, value.unwrap()));
        }
        Some(TransportSlice::Udp(udp)) => {
            let header = udp.to_header();
            let value = match (src, dst) {
                (IpAddr::V4(s), IpAddr::V4(d)) => {
                    header.calc_checksum_ipv4_raw(s.octets(), d.octets(), udp.payload())
                }
                (IpAddr::V6(s), IpAddr::V6(d)) => {
                    header.calc_checksum_ipv6_raw(s.octets(), d.octets(), udp.payload())
                }
                _ => unreachable!(),
            };
            found.push((offset(udp.slice()) + 6, if bare { 0 } else { value.unwrap() }));
        }
        Some(TransportSlice::Icmpv4(icmp)) => {
            let header = icmp.header();
            let value = header.icmp_type.calc_checksum(icmp.payload());
            found.push((offset(icmp.slice()) + 2, value));
        }
        Some(TransportSlice::Icmpv6(icmp)) => {
            let (IpAddr::V6(s), IpAddr::V6(d)) = (src, dst) else { unreachable!() };
            let kind = icmp.header().icmp_type;
            let value = kind.calc_checksum(s.octets(), d.octets(), icmp.payload()).unwrap();
            found.push((offset(icmp.slice()) + 2, value));
        }
        None => {}
    }
    found
}

/// Source and destination address of an IP packet.
pub(crate) fn addresses(sliced: &SlicedPacket<'_>) -> (IpAddr, IpAddr) {
    match &sliced.net {
        Some(NetSlice::Ipv4(ip)) => {
            (ip.header().source_addr().into(), ip.header().destination_addr().into())
        }
        Some(NetSlice::Ipv6(ip)) => {
            (ip.header().source_addr().into(), ip.header().destination_addr().into())
        }
        _ => panic!("not IP"),
    }
}

/// The endpoints of a whole TCP or UDP packet.
pub(crate) fn endpoints(sliced: &SlicedPacket<'_>) -> Option<(SocketAddr, SocketAddr)> {
    let (sport, dport) = match &sliced.transport {
        Some(TransportSlice::Tcp(tcp)) => (tcp.source_port(), tcp.destination_port()),
        Some(TransportSlice::Udp(udp)) => (udp.source_port(), udp.destination_port()),
        _ => return None,
    };
    let (src, dst) = addresses(sliced);
    Some((SocketAddr::new(src, sport), SocketAddr::new(dst, dport)))
}
