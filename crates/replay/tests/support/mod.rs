//! Frames and configurations for the tests of the whole data path.
#![allow(dead_code, reason = "every test uses its own part")]

use std::net::{IpAddr, SocketAddr};

use config::Config;
use etherparse::PacketBuilder;
use wire::Transport;

/// The port's own Ethernet address in every test.
pub const OWN: [u8; 6] = [2, 0, 0, 0, 0, 1];
/// Where frames come from.
pub const PEER: [u8; 6] = [2, 0, 0, 0, 9, 9];

/// What a TCP segment is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Segment {
    Syn,
    SynAck,
    Ack,
    Fin,
    Rst,
}

/// A TCP or UDP frame; `segment` is for TCP only.
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

/// Addresses, ports and payload of a TCP or UDP frame, as etherparse reads
/// them, and whether its checksums are right.
pub struct Seen {
    pub src: SocketAddr,
    pub dst: SocketAddr,
    pub ttl: u8,
    pub payload: Vec<u8>,
}

/// Reads a TCP or UDP frame and checks its checksums; `None` if it is another.
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

/// A configuration with one port, clients behind a gateway, four backends for
/// TCP on port 80 and UDP on port 53 in each family. `extra` is TOML to append
/// to; `scheduler` is for all services.
pub fn config(scheduler: &str, workers: u16, extra: &str) -> Config {
    let mut text = format!(
        r#"
[[port]]
name = "p0"
device = "net_null0"

[[interface]]
port = "p0"
addresses = ["10.71.0.1/24", "10.72.0.1/24", "fd71::1/64", "fd72::1/64"]

[[route]]
prefix = "0.0.0.0/0"
via = "10.71.0.254"

[[route]]
prefix = "::/0"
via = "fd71::fe"

[workers]
count = {workers}

{extra}
"#
    );
    for (family, vip) in [("4", "10.71.0.100"), ("6", "fd71::100")] {
        for (name, proto, port, backend_port) in
            [("web", "tcp", 80, 8080), ("dns", "udp", 53, 5353)]
        {
            text += &format!(
                "[[service]]\nname = \"{name}{family}\"\nvip = \"{vip}\"\nport = {port}\n\
                 protocol = \"{proto}\"\nscheduler = \"{scheduler}\"\n"
            );
            for n in 11..15 {
                let address =
                    if family == "4" { format!("10.72.0.{n}") } else { format!("fd72::{n:x}") };
                text += &format!(
                    "[[service.backend]]\naddress = \"{address}\"\nport = {backend_port}\n"
                );
            }
        }
    }
    Config::parse(&text, "test.toml").unwrap_or_else(|errors| panic!("{errors}"))
}
