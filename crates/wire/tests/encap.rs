//! Tunnels against etherparse's headers and checksums.
#![allow(clippy::unwrap_used, clippy::panic)]

use crate::support;

use std::net::IpAddr;

use etherparse::{Ipv4Header, Ipv6Header, UdpHeader};
use packet::{HeapPacket, PacketBuf};
use proptest::prelude::*;
use support::oracle::repair;
use support::spec::{Spec, config, socket, spec};
use wire::encap::{GENEVE_PORT, GUE_PORT, carried};
use wire::{Encap, Fragment, Headers, Net, Tunnel};

/// Source, destination and hops of a tunnel.
type Ends = (IpAddr, IpAddr, u8);

fn tunnel() -> impl Strategy<Value = Tunnel> {
    prop_oneof![
        Just(Tunnel::Ipip),
        Just(Tunnel::Gre),
        prop_oneof![Just(GUE_PORT), any::<u16>()].prop_map(|port| Tunnel::Gue { port }),
        prop_oneof![Just(GENEVE_PORT), any::<u16>()].prop_map(|port| Tunnel::Geneve { port }),
    ]
}

fn ends() -> impl Strategy<Value = Ends> {
    any::<bool>().prop_flat_map(|v4| {
        (socket(v4), socket(v4), any::<u8>()).prop_map(|(src, dst, ttl)| (src.ip(), dst.ip(), ttl))
    })
}

/// A frame with right checksums, in pieces or whole; everything on it that a
/// tunnel copies out is `class`.
fn frame(spec: &Spec, class: u8) -> Vec<u8> {
    let mut frame = spec.build();
    let l3 = if spec.tag.is_some() { 18 } else { 14 };
    if spec.ends.0.is_ipv4() {
        frame[l3 + 1] = class;
    } else {
        frame[l3] |= class >> 4;
        frame[l3 + 1] |= class << 4;
    }
    if Headers::parse(&frame).unwrap().fragment == Fragment::Whole {
        repair(&mut frame, spec.bare);
    }
    frame
}

/// A UDP header without checksum, by etherparse, and `behind` it.
fn udp_shim(source_port: u16, destination_port: u16, inner: usize, behind: &[u8]) -> Vec<u8> {
    let length = (8 + behind.len() + inner) as u16;
    let udp = UdpHeader { source_port, destination_port, length, checksum: 0 };
    [&udp.to_bytes()[..], behind].concat()
}

/// What must be in front of `inner`, by etherparse; `entropy` are the source
/// port and flow label that were chosen.
fn outer(
    tunnel: Tunnel,
    (src, dst, ttl): Ends,
    inner: &[u8],
    class: u8,
    entropy: (u16, u32),
) -> Vec<u8> {
    let v6_inside = inner[0] >> 4 == 6;
    let ipip = if v6_inside { 41 } else { 4 };
    let (proto, mut shim) = match tunnel {
        Tunnel::Ipip => (ipip, vec![]),
        Tunnel::Gre if v6_inside => (47, vec![0, 0, 0x86, 0xdd]),
        Tunnel::Gre => (47, vec![0, 0, 0x08, 0x00]),
        Tunnel::Gue { port } => (17, udp_shim(entropy.0, port, inner.len(), &[])),
        // RFC 8926 section 3.4: version and length of options, flags, protocol
        // type; virtual network identifier and 8 reserved bits.
        Tunnel::Geneve { port } => {
            let kind = if v6_inside { [0x86, 0xdd] } else { [0x08, 0x00] };
            let geneve = [0, 0, kind[0], kind[1], 0, 0, 0, 0];
            (17, udp_shim(entropy.0, port, inner.len(), &geneve))
        }
    };
    let behind = shim.len() + inner.len();
    let mut front = match (src, dst) {
        (IpAddr::V4(src), IpAddr::V4(dst)) => {
            let mut ip =
                Ipv4Header::new(behind as u16, ttl, proto.into(), src.octets(), dst.octets())
                    .unwrap();
            ip.dscp = (class >> 2).try_into().unwrap();
            ip.ecn = (class & 3).try_into().unwrap();
            ip.dont_fragment = true;
            ip.identification = 0;
            ip.header_checksum = ip.calc_header_checksum();
            ip.to_bytes().to_vec()
        }
        (IpAddr::V6(src), IpAddr::V6(dst)) => Ipv6Header {
            traffic_class: class,
            flow_label: entropy.1.try_into().unwrap(),
            payload_length: behind as u16,
            next_header: proto.into(),
            hop_limit: ttl,
            source: src.octets(),
            destination: dst.octets(),
        }
        .to_bytes()
        .to_vec(),
        _ => unreachable!(),
    };
    front.append(&mut shim);
    front
}

/// The source port, if there is one, and the flow label of an encapsulated frame.
fn entropy(frame: &[u8], headers: &Headers) -> (u16, u32) {
    let at = usize::from(headers.l4);
    let port = u16::from_be_bytes([frame[at], frame[at + 1]]);
    let l3 = usize::from(headers.l3);
    let label = u32::from_be_bytes([0, frame[l3 + 1] & 15, frame[l3 + 2], frame[l3 + 3]]);
    (port, if headers.net == Net::Ipv6 { label } else { 0 })
}

proptest! {
    #![proptest_config(config(4000))]

    #[test]
    fn equals_the_header_made_by_etherparse(
        spec in spec(),
        class in any::<u8>(),
        tunnel in tunnel(),
        ends in ends(),
    ) {
        let frame = frame(&spec, class);
        let mut headers = Headers::parse(&frame).unwrap();
        let (l3, end) = (usize::from(headers.l3), usize::from(headers.end));
        let encap = Encap::new(tunnel, ends.0, ends.1, ends.2).unwrap();
        let mut packet = HeapPacket::new(&frame);
        prop_assert!(encap.apply(&mut packet, &mut headers));
        let sent = packet.bytes();
        let chosen = entropy(sent, &headers);
        let inner = &frame[l3..end];
        let mut wanted = frame[..l3].to_vec();
        wanted[l3 - 2..].copy_from_slice(if ends.0.is_ipv4() { &[8, 0] } else { &[0x86, 0xdd] });
        wanted.extend(outer(tunnel, ends, inner, class, chosen));
        prop_assert_eq!(wanted.len() - l3, usize::from(encap.overhead()));
        wanted.extend(inner);
        prop_assert_eq!(sent, wanted);
        prop_assert_eq!(Headers::parse(sent), Ok(headers));
        prop_assert!(tunnel.port().is_none() || chosen.0 >= 0xc000);
        let l4 = usize::from(headers.l4 - headers.l3);
        prop_assert_eq!(carried(&sent[l3..], headers.proto, l4, &[tunnel]), Some(inner));
    }

    /// What hardware is told of a flow is what software puts in front of its
    /// packets, lengths and what follows from them aside.
    #[test]
    fn a_flows_header_is_that_of_its_packets(
        spec in support::spec::balanced(),
        tunnel in tunnel(),
        ends in ends(),
    ) {
        let frame = frame(&spec, 0);
        let mut headers = Headers::parse(&frame).unwrap();
        let flow = headers.flow(&frame).unwrap();
        let (whole, l3) = (headers.fragment == Fragment::Whole, usize::from(headers.l3));
        let encap = Encap::new(tunnel, ends.0, ends.1, ends.2).unwrap();
        let mut packet = HeapPacket::new(&frame);
        prop_assert!(encap.apply(&mut packet, &mut headers));
        let told = encap.of_flow(&flow);
        let mut sent = packet.bytes()[l3..][..told.len()].to_vec();
        let v4 = ends.0.is_ipv4();
        let lengths: &[usize] = if v4 { &[2, 3, 10, 11] } else { &[4, 5] };
        lengths.iter().for_each(|at| sent[*at] = 0);
        if tunnel.port().is_some() {
            let udp = if v4 { 20 } else { 40 };
            sent[udp + 4..udp + 6].fill(0);
        }
        prop_assert_eq!(told == sent, whole, "{:?} {:?}", told, sent);
    }

    #[test]
    fn what_does_not_fit_stays_as_it_is(
        bytes in proptest::collection::vec(any::<u8>(), 0..120),
        offsets in proptest::array::uniform3(0u16..140),
        v6 in any::<bool>(),
        fragment in any::<bool>(),
        proto in proptest::sample::select(vec![6u8, 17, 1]),
        tunnel in tunnel(),
        ends in ends(),
    ) {
        let [l3, l4, end] = offsets;
        let before = Headers {
            net: if v6 { Net::Ipv6 } else { Net::Ipv4 },
            l3, l4, end, vlan: None, proto, ttl: 9,
            tcp_flags: wire::TcpFlags(0),
            sequence: 0,
            acknowledgement: 0,
            fragment: if fragment { Fragment::Later(1) } else { Fragment::Whole },
        };
        let mut headers = before;
        let mut packet = HeapPacket::new(&bytes);
        let encap = Encap::new(tunnel, ends.0, ends.1, ends.2).unwrap();
        let (l3, l4, end) = (usize::from(l3), usize::from(l4), usize::from(end));
        // The parts that `apply` reads: the fixed IP header and, of a whole packet
        // of TCP or UDP, the ports.
        let ports = matches!(before.fragment, Fragment::Whole) && proto != 1;
        let fits = (2..=end).contains(&l3)
            && end <= bytes.len()
            && end - l3 >= if v6 { 40 } else { 20 }
            && (!ports || l4 + 4 <= bytes.len());
        prop_assert_eq!(encap.apply(&mut packet, &mut headers), fits);
        if !fits {
            prop_assert_eq!(packet.bytes(), &bytes);
            prop_assert_eq!(headers, before);
        }
    }
}

/// A frame without room in front.
struct Tight(Vec<u8>);

impl PacketBuf for Tight {
    fn bytes(&self) -> &[u8] {
        &self.0
    }
    fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.0
    }
    fn mark(&self) -> Option<u32> {
        None
    }
    fn prepend(&mut self, _: usize) -> bool {
        false
    }
    fn cut_front(&mut self, _: usize) -> bool {
        false
    }
    fn resize(&mut self, len: usize) -> bool {
        self.0.resize(len, 0);
        true
    }
}

/// A UDP frame from port `port`.
fn udp(port: u16, size: usize) -> Vec<u8> {
    let step = etherparse::PacketBuilder::ethernet2([2; 6], [4; 6]);
    let step = step.ipv4([10, 0, 0, 1], [10, 0, 0, 2], 60).udp(port, 53);
    let mut frame = Vec::new();
    step.write(&mut frame, &vec![7; size]).unwrap();
    frame
}

fn gue() -> Encap {
    let (src, dst) = ("10.0.0.9".parse().unwrap(), "10.0.0.8".parse().unwrap());
    Encap::new(Tunnel::Gue { port: GUE_PORT }, src, dst, 64).unwrap()
}

#[test]
fn without_headroom_or_beyond_the_longest_packet_nothing_happens() {
    let mut tight = Tight(udp(1, 20));
    let mut headers = Headers::parse(tight.bytes()).unwrap();
    assert!(!gue().apply(&mut tight, &mut headers));
    assert_eq!(tight.0, udp(1, 20));
    // 14 bytes of Ethernet; 65521 fit behind them.
    for (size, fits) in [(65521 - 28 - 28, true), (65521 - 28 - 27, false)] {
        let mut packet = HeapPacket::new(&udp(1, size));
        let mut headers = Headers::parse(packet.bytes()).unwrap();
        assert_eq!(gue().apply(&mut packet, &mut headers), fits, "{size}");
    }
}

#[test]
fn addresses_of_two_families_make_no_tunnel() {
    let (four, six) = ("10.0.0.9".parse().unwrap(), "fd00::1".parse().unwrap());
    assert_eq!(Encap::new(Tunnel::Ipip, four, six, 64), None);
}

fn source_port(frame: &[u8]) -> u16 {
    let mut packet = HeapPacket::new(frame);
    let mut headers = Headers::parse(frame).unwrap();
    assert!(gue().apply(&mut packet, &mut headers));
    entropy(packet.bytes(), &headers).0
}

#[test]
fn flows_spread_over_source_ports_and_each_keeps_its_own() {
    let ports: std::collections::BTreeSet<u16> =
        (0..2000).map(|port| source_port(&udp(port, 4))).collect();
    assert!(ports.len() > 1800, "{} source ports for 2000 flows", ports.len());
    assert_eq!(source_port(&udp(9, 4)), source_port(&udp(9, 400)));
}

#[test]
fn fragments_of_a_datagram_have_one_source_port() {
    let piece = |offset: u16, more: bool| {
        let mut frame = udp(9, 64);
        let word = offset | u16::from(more) << 13;
        frame[20..22].copy_from_slice(&word.to_be_bytes());
        frame
    };
    assert_eq!(source_port(&piece(0, true)), source_port(&piece(9, true)));
    assert_eq!(source_port(&piece(0, true)), source_port(&piece(18, false)));
}

#[test]
fn a_flows_header_by_hand() {
    let (src, dst) = ("10.0.0.9".parse().unwrap(), "10.0.0.8".parse().unwrap());
    let gre = Encap::new(Tunnel::Gre, src, dst, 64).unwrap();
    let flow = |text: &str| {
        let frame = match text {
            "4" => udp(9, 4),
            _ => {
                let step = etherparse::PacketBuilder::ethernet2([2; 6], [4; 6]);
                let mut frame = Vec::new();
                step.ipv6([1; 16], [2; 16], 9).udp(1, 2).write(&mut frame, &[]).unwrap();
                frame
            }
        };
        Headers::parse(&frame).unwrap().flow(&frame).unwrap()
    };
    let ip = |proto| [0x45, 0, 0, 0, 0, 0, 0x40, 0, 64, proto, 0, 0, 10, 0, 0, 9, 10, 0, 0, 8];
    assert_eq!(gre.of_flow(&flow("4")), [&ip(47)[..], &[0, 0, 8, 0]].concat());
    assert_eq!(gre.of_flow(&flow("6")), [&ip(47)[..], &[0, 0, 0x86, 0xdd]].concat());
    let ipip = Encap::new(Tunnel::Ipip, src, dst, 64).unwrap();
    assert_eq!(ipip.of_flow(&flow("6")), ip(41));
}
