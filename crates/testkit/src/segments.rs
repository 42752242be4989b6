//! TCP and UDP frames as etherparse builds and reads them: an opinion that is
//! not ours.

use std::net::{IpAddr, SocketAddr};

use etherparse::PacketBuilder;
use wire::Transport;

/// The port's own Ethernet address in every test.
pub const OWN: [u8; 6] = [2, 0, 0, 0, 0, 1];
/// Where frames come from.
pub const PEER: [u8; 6] = [2, 0, 0, 0, 9, 9];

/// What a TCP segment is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Segment {
    /// SYN.
    Syn,
    /// SYN and ACK.
    SynAck,
    /// ACK.
    Ack,
    /// FIN and ACK.
    Fin,
    /// RST.
    Rst,
}

/// A TCP or UDP frame; `segment` is for TCP only.
///
/// # Panics
/// `src` and `dst` are of different families.
#[must_use]
pub fn frame(
    proto: Transport,
    src: SocketAddr,
    dst: SocketAddr,
    segment: Segment,
    payload: &[u8],
) -> Vec<u8> {
    let ethernet = PacketBuilder::ethernet2(PEER, OWN);
    let ip = match (src.ip(), dst.ip()) {
        (IpAddr::V4(s), IpAddr::V4(d)) => ethernet.ipv4(s.octets(), d.octets(), 64),
        (IpAddr::V6(s), IpAddr::V6(d)) => ethernet.ipv6(s.octets(), d.octets(), 64),
        _ => panic!("{src} and {dst} are of different families"),
    };
    let mut bytes = Vec::new();
    match proto {
        Transport::Udp => {
            ip.udp(src.port(), dst.port()).write(&mut bytes, payload).unwrap();
        }
        Transport::Tcp => {
            let tcp = ip.tcp(src.port(), dst.port(), 1000, 4096);
            let tcp = match segment {
                Segment::Syn => tcp.syn(),
                Segment::SynAck => tcp.syn().ack(1),
                Segment::Ack => tcp.ack(1),
                Segment::Fin => tcp.fin().ack(1),
                Segment::Rst => tcp.rst(),
            };
            tcp.write(&mut bytes, payload).unwrap();
        }
    }
    bytes
}

/// Addresses, ports and payload of a TCP or UDP frame, as etherparse reads them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seen {
    /// The sender.
    pub src: SocketAddr,
    /// The receiver.
    pub dst: SocketAddr,
    /// IPv4's TTL, IPv6's hop limit.
    pub ttl: u8,
    /// What the transport carries.
    pub payload: Vec<u8>,
}

/// Reads a TCP or UDP frame and checks its checksums; `None` if it is another.
///
/// # Panics
/// The frame is cut or has a wrong checksum.
#[must_use]
pub fn seen(bytes: &[u8]) -> Option<Seen> {
    use etherparse::{NetSlice, SlicedPacket, TransportSlice};
    let sliced = SlicedPacket::from_ethernet(bytes).unwrap();
    let (src, dst, ttl): (IpAddr, IpAddr, u8) = match sliced.net.as_ref()? {
        NetSlice::Ipv4(ip) => {
            let header = ip.header();
            assert_eq!(header.to_header().calc_header_checksum(), header.header_checksum());
            (header.source_addr().into(), header.destination_addr().into(), header.ttl())
        }
        NetSlice::Ipv6(ip) => {
            let header = ip.header();
            (header.source_addr().into(), header.destination_addr().into(), header.hop_limit())
        }
        NetSlice::Arp(_) => return None,
    };
    let (sport, dport, payload) = match sliced.transport.as_ref()? {
        TransportSlice::Tcp(tcp) => {
            let right = match (src, dst) {
                (IpAddr::V4(s), IpAddr::V4(d)) => {
                    tcp.calc_checksum_ipv4(s.octets(), d.octets()).unwrap()
                }
                (IpAddr::V6(s), IpAddr::V6(d)) => {
                    tcp.calc_checksum_ipv6(s.octets(), d.octets()).unwrap()
                }
                _ => unreachable!(),
            };
            assert_eq!(right, tcp.checksum(), "TCP checksum of {src} > {dst}");
            (tcp.source_port(), tcp.destination_port(), tcp.payload().to_vec())
        }
        TransportSlice::Udp(udp) => {
            let header = udp.to_header();
            let right = match (src, dst) {
                (IpAddr::V4(s), IpAddr::V4(d)) => {
                    header.calc_checksum_ipv4_raw(s.octets(), d.octets(), udp.payload()).unwrap()
                }
                (IpAddr::V6(s), IpAddr::V6(d)) => {
                    header.calc_checksum_ipv6_raw(s.octets(), d.octets(), udp.payload()).unwrap()
                }
                _ => unreachable!(),
            };
            assert_eq!(right, udp.checksum(), "UDP checksum of {src} > {dst}");
            (udp.source_port(), udp.destination_port(), udp.payload().to_vec())
        }
        _ => return None,
    };
    Some(Seen { src: SocketAddr::new(src, sport), dst: SocketAddr::new(dst, dport), ttl, payload })
}
