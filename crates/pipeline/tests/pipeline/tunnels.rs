//! Packets to backends in tunnels.
use std::net::IpAddr;

use etherparse::{
    Icmpv4Type, Icmpv6Type, Ipv4Header, Ipv6Header, PacketHeaders, TransportHeader, UdpHeader,
    icmpv4,
};
use flow::Mode;
use packet::HeapPacket;
use service::TunnelSpec;
use state::Counter;
use wire::Tunnel;

use crate::fragments::cut;
use crate::icmp::{icmp4, icmp6};
use crate::world::{INSIDE, LB_IN, Link, OUTSIDE, Plan, World, backend_mac, ip, tcp, udp};

/// Every kind of tunnel.
pub(crate) const TUNNELS: [Tunnel; Tunnel::ALL.len()] = Tunnel::ALL;

const CLIENT: &str = "9.9.9.9:5000";
const CLIENT6: &str = "[2001:db8::9]:5000";

fn plan(tunnel: Tunnel) -> Plan {
    Plan { tunnel: TunnelSpec { tunnel, source: None, ttl: 64 }, ..Plan::default() }
}

/// `inner` in a tunnel from `src` to `dst`, made by etherparse; the source port
/// and flow label are those that `like`, the frame that came out, has.
pub(crate) fn outer(
    tunnel: Tunnel,
    (src, dst, ttl): (IpAddr, IpAddr, u8),
    inner: &[u8],
    like: &[u8],
) -> Vec<u8> {
    let inner = &inner[14..];
    let six = inner[0] >> 4 == 6;
    let chosen = |at: usize| u16::from_be_bytes([like[at], like[at + 1]]);
    let (proto, mut shim) = match (tunnel, src, dst) {
        (Tunnel::Ipip, ..) => (if six { 41 } else { 4 }, vec![]),
        (Tunnel::Gre, ..) => {
            (47, vec![0, 0, if six { 0x86 } else { 8 }, if six { 0xdd } else { 0 }])
        }
        (Tunnel::Gue { port } | Tunnel::Geneve { port }, src, _) => {
            let source_port = chosen(if src.is_ipv4() { 34 } else { 54 });
            let geneve = [0, 0, if six { 0x86 } else { 8 }, if six { 0xdd } else { 0 }, 0, 0, 0, 0];
            let geneve = if tunnel.mode() == Mode::Geneve { &geneve[..] } else { &[] };
            let length = (8 + geneve.len() + inner.len()) as u16;
            let udp = UdpHeader { source_port, destination_port: port, length, checksum: 0 };
            (17, [&udp.to_bytes()[..], geneve].concat())
        }
    };
    let behind = (shim.len() + inner.len()) as u16;
    let mut frame = [&like[..6], &LB_IN.0].concat();
    match (src, dst) {
        (IpAddr::V4(src), IpAddr::V4(dst)) => {
            let (src, dst) = (src.octets(), dst.octets());
            let mut ip = Ipv4Header::new(behind, ttl, proto.into(), src, dst).unwrap();
            (ip.dont_fragment, ip.identification) = (true, 0);
            ip.header_checksum = ip.calc_header_checksum();
            frame.extend([8, 0]);
            frame.extend(ip.to_bytes());
        }
        (IpAddr::V6(src), IpAddr::V6(dst)) => {
            let label = u32::from(like[15] & 15) << 16 | u32::from(chosen(16));
            let ip = Ipv6Header {
                traffic_class: 0,
                flow_label: label.try_into().unwrap(),
                payload_length: behind,
                next_header: proto.into(),
                hop_limit: ttl,
                source: src.octets(),
                destination: dst.octets(),
            };
            frame.extend([0x86, 0xdd]);
            frame.extend(ip.to_bytes());
        }
        _ => unreachable!(),
    }
    frame.append(&mut shim);
    frame.extend(inner);
    frame
}

/// Client, VIP, tunnel's source and backend.
const CASES: [(&str, &str, &str, &str); 4] = [
    (CLIENT, "10.9.0.7:80", "10.1.0.1", "10.1.0.11"),
    (CLIENT6, "[fd09::7]:80", "fd01::1", "fd01::11"),
    (CLIENT, "10.9.0.8:80", "fd01::1", "fd01::11"),
    (CLIENT6, "[fd09::8]:80", "10.1.0.1", "10.1.0.11"),
];

#[test]
fn every_tunnel_carries_every_family_in_either() {
    for tunnel in TUNNELS {
        for (client, vip, source, backend) in CASES {
            let mut world = World::new(&plan(tunnel));
            for (flags, payload) in [("S", &b""[..]), ("A", b""), ("PA", b"hello, odd length")] {
                let frame = tcp(Link::CLIENT, client, vip, flags, payload);
                let (port, sent) = world.one(OUTSIDE, &frame).unwrap();
                let inner = tcp(Link::to_backend(1), client, vip, flags, payload);
                let wanted = outer(tunnel, (ip(source), ip(backend), 64), &inner, &sent);
                assert_eq!((port, sent), (INSIDE, wanted), "{tunnel:?} {vip}");
            }
            assert_eq!(world.count(Counter::Installed), 1);
        }
    }
}

#[test]
fn padding_stays_behind_and_tags_follow_the_way() {
    let mut world = World::new(&Plan { vlans: [Some(5), Some(6)], ..plan(Tunnel::Gre) });
    let mut syn = tcp(Link::CLIENT.vlan(5), CLIENT, "10.9.0.7:80", "S", b"");
    syn.extend([0xee; 6]);
    let (_, mut sent) = world.one(OUTSIDE, &syn).unwrap();
    assert_eq!(sent.splice(12..16, []).collect::<Vec<_>>(), [0x81, 0, 0, 6]);
    let inner = tcp(Link::to_backend(1), CLIENT, "10.9.0.7:80", "S", b"");
    let ends = (ip("10.1.0.1"), ip("10.1.0.11"), 64);
    assert_eq!(sent, outer(Tunnel::Gre, ends, &inner, &sent));
}

#[test]
fn source_and_ttl_are_the_services_own() {
    let tunnel = TunnelSpec { tunnel: Tunnel::Ipip, source: Some(ip("192.0.2.1")), ttl: 3 };
    let mut world = World::new(&Plan { tunnel, ..Plan::default() });
    let (_, sent) =
        world.one(OUTSIDE, &tcp(Link::CLIENT, CLIENT, "10.9.0.7:80", "S", b"")).unwrap();
    let inner = tcp(Link::to_backend(1), CLIENT, "10.9.0.7:80", "S", b"");
    let ends = (ip("192.0.2.1"), ip("10.1.0.11"), 3);
    assert_eq!(sent, outer(Tunnel::Ipip, ends, &inner, &sent));
}

#[test]
fn a_packet_too_long_for_its_tunnel_is_told_the_length_that_fits() {
    for (tunnel, overhead) in TUNNELS.into_iter().zip([20, 24, 28, 36]) {
        let mut world = World::new(&plan(tunnel));
        for (client, vip, ..) in &CASES[..2] {
            for flags in ["S", "A"] {
                world.one(OUTSIDE, &tcp(Link::CLIENT, client, vip, flags, b"")).unwrap();
            }
        }
        let frame = |size: usize| tcp(Link::CLIENT, CLIENT, "10.9.0.7:80", "A", &vec![1; size]);
        let most = 1500 - overhead - 40;
        assert_eq!(world.one(OUTSIDE, &frame(most)).unwrap().1.len(), 1514);
        let (port, sent) = world.one(OUTSIDE, &frame(most + 1)).unwrap();
        assert_eq!(port, OUTSIDE);
        let parsed = PacketHeaders::from_ethernet_slice(&sent).unwrap();
        let Some(TransportHeader::Icmpv4(icmp)) = parsed.transport else { panic!("no ICMP") };
        let next_hop_mtu = 1500 - overhead as u16;
        let needed = icmpv4::DestUnreachableHeader::FragmentationNeeded { next_hop_mtu };
        assert_eq!(icmp.icmp_type, Icmpv4Type::DestinationUnreachable(needed));
        let six = tcp(Link::CLIENT, CLIENT6, "[fd09::7]:80", "A", &vec![1; most]);
        let (_, sent) = world.one(OUTSIDE, &six).unwrap();
        let parsed = PacketHeaders::from_ethernet_slice(&sent).unwrap();
        let Some(TransportHeader::Icmpv6(icmp)) = parsed.transport else { panic!("no ICMPv6") };
        let mtu = 1500 - 20 - overhead as u32;
        assert_eq!(icmp.icmp_type, Icmpv6Type::PacketTooBig { mtu });
    }
}

#[test]
fn a_full_table_and_packets_midway_use_the_tunnels_too() {
    for tunnel in TUNNELS {
        let mut fresh = World::new(&plan(tunnel));
        let mut full = World::new(&Plan { connections: 0, ..plan(tunnel) });
        for n in 0..20 {
            let client = format!("9.9.9.9:{}", 1000 + n);
            let frame = tcp(Link::CLIENT, &client, "10.9.0.7:80", "A", b"more");
            let (port, kept) = fresh.one(OUTSIDE, &frame).unwrap();
            assert_eq!(full.one(OUTSIDE, &frame), Some((port, kept.clone())));
            let n = if kept[..6] == backend_mac(1).0 { 1 } else { 2 };
            let inner = tcp(Link::to_backend(n), &client, "10.9.0.7:80", "A", b"more");
            let ends = (ip("10.1.0.1"), ip(&format!("10.1.0.1{n}")), 64);
            assert_eq!(kept, outer(tunnel, ends, &inner, &kept));
        }
        assert_eq!(full.count(Counter::Stateless), 20);
    }
}

#[test]
fn each_piece_goes_in_a_tunnel_of_its_own() {
    for tunnel in TUNNELS {
        let frame = udp(Link::CLIENT, CLIENT, "10.9.0.7:53", &[7; 300]);
        let inner = udp(Link::to_backend(1), CLIENT, "10.9.0.7:53", &[7; 300]);
        let (pieces, inner) = (cut(&frame, 9, 64), cut(&inner, 9, 64));
        let mut world = World::new(&plan(tunnel));
        let frames = [1, 0, 3, 2, 4].map(|n: usize| HeapPacket::new(&pieces[n]));
        let sent = world.burst(OUTSIDE, frames.into());
        let ends = (ip("10.1.0.1"), ip("10.1.0.11"), 64);
        let like = &sent[0].1;
        let wanted: Vec<_> = inner.iter().map(|inner| outer(tunnel, ends, inner, like)).collect();
        assert_eq!(sent.len(), wanted.len());
        // One source port for all of them.
        assert!(sent.iter().all(|(_, sent)| wanted.contains(sent)), "{tunnel:?}");
    }
}

#[test]
fn errors_about_answers_go_through_the_tunnel_to_the_backend() {
    let host = || Icmpv4Type::DestinationUnreachable(icmpv4::DestUnreachableHeader::Host);
    for (tunnel, connections) in TUNNELS.into_iter().flat_map(|t| [(t, 64), (t, 0)]) {
        let mut world = World::new(&Plan { connections, ..plan(tunnel) });
        world.one(OUTSIDE, &tcp(Link::CLIENT, CLIENT, "10.9.0.7:80", "S", b"")).unwrap();
        let answer = tcp(Link::from_backend(1), "10.9.0.7:80", CLIENT, "A", b"past us");
        let error = icmp4(Link::CLIENT, "9.0.0.1", "10.9.0.7", host(), &answer[14..]);
        let (port, sent) = world.one(OUTSIDE, &error).unwrap();
        let n = sent[5];
        let inner = icmp4(Link::to_backend(n), "9.0.0.1", "10.9.0.7", host(), &answer[14..]);
        let ends = (ip("10.1.0.1"), ip(&format!("10.1.0.1{n}")), 64);
        assert_eq!((port, &sent), (INSIDE, &outer(tunnel, ends, &inner, &sent)));
    }
}

#[test]
fn a_tunnel_too_narrow_further_on_is_told_to_the_client() {
    let needed = |next_hop_mtu| {
        let needed = icmpv4::DestUnreachableHeader::FragmentationNeeded { next_hop_mtu };
        Icmpv4Type::DestinationUnreachable(needed)
    };
    let too_big = |mtu| Icmpv6Type::PacketTooBig { mtu };
    for (tunnel, shim) in TUNNELS.into_iter().zip([0, 4, 8]) {
        for (client, vip, source, backend) in CASES {
            let mut world = World::new(&plan(tunnel));
            let frame = tcp(Link::CLIENT, client, vip, "A", &[1; 1300]);
            let (_, sent) = world.one(OUTSIDE, &frame).unwrap();
            let router = Link::from_backend(2);
            let outside_v4 = !source.contains(':');
            let report = |mtu: u16, quote: &[u8]| {
                if outside_v4 {
                    icmp4(router, "10.1.0.254", source, needed(mtu), quote)
                } else {
                    icmp6(router, "fd01::fe", source, too_big(mtu.into()), quote)
                }
            };
            let (port, told) = world.one(INSIDE, &report(1400, &sent[14..300])).unwrap();
            assert_eq!(
                (port, &told[..12]),
                (OUTSIDE, &tcp(Link::TO_CLIENT, client, vip, "A", b"")[..12])
            );
            let fits = 1400 - shim - if outside_v4 { 20 } else { 40 };
            let inner = tcp(Link::to_backend(1), client, vip, "A", &[1; 1300]);
            let quoted = 286 - usize::from(shim) - if outside_v4 { 20 } else { 40 };
            let (own, client_ip) =
                if client == CLIENT { ("10.0.0.1", "9.9.9.9") } else { ("fd00::1", "2001:db8::9") };
            let wanted = if client == CLIENT {
                let link = Link::TO_CLIENT.ttl(64);
                icmp4(link, own, client_ip, needed(fits), &inner[14..14 + quoted])
            } else {
                let link = Link::TO_CLIENT.ttl(64);
                icmp6(link, own, client_ip, too_big(fits.into()), &inner[14..14 + quoted])
            };
            // Precedence, and whether it may be fragmented, are the sender's affair.
            let from = if client == CLIENT { 26 } else { 14 };
            assert_eq!(told[from..], wanted[from..], "{tunnel:?} {vip} to {backend}");
            assert_eq!(world.count(Counter::IcmpTranslated), 1);
            // With a wrong source or as much as nothing of the inner packet.
            let short = report(1400, &sent[14..14 + 28 + usize::from(shim)]);
            assert_eq!(world.one(INSIDE, &short), None);
            let mut spoofed = sent[14..300].to_vec();
            spoofed[if outside_v4 { 15 } else { 23 }] ^= 1;
            assert_eq!(world.one(INSIDE, &report(1400, &spoofed)), None);
            // To another address of ours than the tunnel's source, which alone can
            // have been told.
            let translated = world.count(Counter::IcmpTranslated);
            let elsewhere = if outside_v4 {
                icmp4(router, "10.1.0.254", "10.0.0.1", needed(1400), &sent[14..300])
            } else {
                icmp6(router, "fd01::fe", "fd00::1", too_big(1400), &sent[14..300])
            };
            assert_eq!(world.one(INSIDE, &elsewhere), None);
            assert_eq!(world.count(Counter::IcmpTranslated), translated);
            // The same report to the source is believed: nothing else was wrong.
            assert!(world.one(INSIDE, &report(1400, &sent[14..300])).is_some());
        }
    }
}
