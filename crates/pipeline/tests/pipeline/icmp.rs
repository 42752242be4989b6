//! Echoes, errors made here, and errors translated.
use etherparse::{Icmpv4Type, Icmpv6Type, PacketHeaders, TransportHeader, icmpv4, icmpv6};
use state::Counter;

use crate::world::{INSIDE, LB_IN, LB_OUT, Link, OUTSIDE, Plan, World, backend_mac, ip, tcp, udp};

/// An ICMP or ICMPv6 frame around `payload`.
pub(crate) fn icmp4(link: Link, src: &str, dst: &str, kind: Icmpv4Type, payload: &[u8]) -> Vec<u8> {
    let mut frame = Vec::new();
    link.network(ip(src), ip(dst)).icmpv4(kind).write(&mut frame, payload).unwrap();
    frame
}

pub(crate) fn icmp6(link: Link, src: &str, dst: &str, kind: Icmpv6Type, payload: &[u8]) -> Vec<u8> {
    let mut frame = Vec::new();
    link.network(ip(src), ip(dst)).icmpv6(kind).write(&mut frame, payload).unwrap();
    frame
}

#[test]
fn echoes_to_vips_and_interfaces_are_answered() {
    let echo = etherparse::IcmpEchoHeader { id: 3, seq: 4 };
    let mut world = World::new(&Plan::default());
    for address in ["10.9.0.1", "10.0.0.1", "10.1.0.100"] {
        let ask = icmp4(Link::CLIENT, "9.9.9.9", address, Icmpv4Type::EchoRequest(echo), b"data");
        let mut wanted = icmp4(
            Link::TO_CLIENT.ttl(64),
            address,
            "9.9.9.9",
            Icmpv4Type::EchoReply(echo),
            b"data",
        );
        let (port, sent) = world.one(OUTSIDE, &ask).unwrap();
        // Whether the answer may be fragmented doesn't matter here.
        wanted[20..26].copy_from_slice(&sent[20..26]);
        assert_eq!((port, &sent[..20]), (OUTSIDE, &wanted[..20]));
        assert_eq!(sent[26..], wanted[26..]);
    }
    for address in ["fd09::1", "fd00::1"] {
        let ask = icmp6(Link::CLIENT, "2001:db8::9", address, Icmpv6Type::EchoRequest(echo), b"d");
        let link = Link::TO_CLIENT.ttl(64);
        let wanted = icmp6(link, address, "2001:db8::9", Icmpv6Type::EchoReply(echo), b"d");
        assert_eq!(world.one(OUTSIDE, &ask), Some((OUTSIDE, wanted)));
    }
    let ask = icmp4(Link::CLIENT, "9.9.9.9", "8.8.8.8", Icmpv4Type::EchoRequest(echo), b"");
    world.drops(OUTSIDE, &ask, Counter::NotForUs);
    let reply = icmp4(Link::CLIENT, "9.9.9.9", "10.9.0.1", Icmpv4Type::EchoReply(echo), b"");
    world.drops(OUTSIDE, &reply, Counter::IcmpUnsupported);
    assert_eq!(world.count(Counter::EchoReplied), 5);
}

/// Echo requests in one packet and in pieces share the limit of a worker.
#[test]
fn echo_requests_are_answered_within_the_limit() {
    let mut world = World::new(&Plan { echoes: 2, ..Plan::default() });
    let echo = etherparse::IcmpEchoHeader { id: 1, seq: 1 };
    let ask = icmp4(Link::CLIENT, "9.9.9.9", "10.9.0.1", Icmpv4Type::EchoRequest(echo), b"data");
    for _ in 0..2 {
        assert!(world.one(OUTSIDE, &ask).is_some());
    }
    world.drops(OUTSIDE, &ask, Counter::EchoLimited);
    assert_eq!(world.count(Counter::EchoReplied), 2);
    world.now_ms += 500;
    assert!(world.one(OUTSIDE, &ask).is_some(), "half a second gives one more");
    let error = tcp(Link::CLIENT.ttl(1), "9.9.9.9:5000", "10.9.0.1:80", "S", b"");
    assert!(world.one(OUTSIDE, &error).is_some(), "errors have a limit of their own");
}

#[test]
fn a_ttl_that_runs_out_is_told_within_the_limit() {
    let mut world = World::new(&Plan { icmp_errors: 2, ..Plan::default() });
    for (client, vip, own) in [
        ("9.9.9.9:5000", "10.9.0.1:80", "10.0.0.1"),
        ("[2001:db8::9]:5000", "[fd09::1]:80", "fd00::1"),
    ] {
        let syn = tcp(Link::CLIENT.ttl(1), client, vip, "S", b"");
        let (port, sent) = world.one(OUTSIDE, &syn).unwrap();
        assert_eq!((port, &sent[..6], &sent[6..12]), (OUTSIDE, &syn[6..12], &LB_OUT.0[..]));
        let headers = wire::Headers::parse(&sent).unwrap();
        assert_eq!(headers.src_addr(&sent), Some(ip(own)));
        assert_eq!(headers.dst_addr(&sent).map(|a| a.is_ipv4()), Some(own.contains('.')));
        let parsed = PacketHeaders::from_ethernet_slice(&sent).unwrap();
        match parsed.transport.unwrap() {
            TransportHeader::Icmpv4(icmp) => {
                assert_eq!(
                    icmp.icmp_type,
                    Icmpv4Type::TimeExceeded(icmpv4::TimeExceededCode::TtlExceededInTransit,)
                );
                assert_eq!(icmp.icmp_type.calc_checksum(parsed.payload.slice()), icmp.checksum);
            }
            TransportHeader::Icmpv6(icmp) => assert_eq!(
                icmp.icmp_type,
                Icmpv6Type::TimeExceeded(icmpv6::TimeExceededCode::HopLimitExceeded,)
            ),
            other => panic!("{other:?}"),
        }
        assert!(sent.ends_with(&syn[14..]), "quotes the packet as it came");
    }
    let syn = tcp(Link::CLIENT.ttl(1), "9.9.9.9:5000", "10.9.0.1:80", "S", b"");
    world.drops(OUTSIDE, &syn, Counter::TtlExpired);
    assert_eq!(world.count(Counter::IcmpLimited), 1);
    assert_eq!(world.count(Counter::TimeExceeded), 2);
}

#[test]
fn packets_too_long_for_the_next_link_are_told_or_dropped() {
    let mut world = World::new(&Plan { mtus: [9000, 1400], ..Plan::default() });
    let syn = |payload: &[u8]| tcp(Link::CLIENT, "9.9.9.9:5000", "10.9.0.1:80", "S", payload);
    assert_eq!(world.one(OUTSIDE, &syn(&[0; 1360])).unwrap().0, INSIDE);
    let (port, sent) = world.one(OUTSIDE, &syn(&[0; 1361])).unwrap();
    assert_eq!(port, OUTSIDE);
    let parsed = PacketHeaders::from_ethernet_slice(&sent).unwrap();
    let Some(TransportHeader::Icmpv4(icmp)) = parsed.transport else { panic!("no ICMP") };
    let needed = icmpv4::DestUnreachableHeader::FragmentationNeeded { next_hop_mtu: 1400 };
    assert_eq!(icmp.icmp_type, Icmpv4Type::DestinationUnreachable(needed));
    let mut may_fragment = syn(&[0; 1361]);
    may_fragment[20] = 0;
    let ip = etherparse::Ipv4Header::from_slice(&may_fragment[14..]).unwrap().0;
    may_fragment[24..26].copy_from_slice(&ip.calc_header_checksum().to_be_bytes());
    world.drops(OUTSIDE, &may_fragment, Counter::TooBig);
    let six = tcp(Link::CLIENT, "[2001:db8::9]:5000", "[fd09::1]:80", "S", &[0; 1341]);
    let (_, sent) = world.one(OUTSIDE, &six).unwrap();
    let parsed = PacketHeaders::from_ethernet_slice(&sent).unwrap();
    let Some(TransportHeader::Icmpv6(icmp)) = parsed.transport else { panic!("no ICMPv6") };
    assert_eq!(icmp.icmp_type, Icmpv6Type::PacketTooBig { mtu: 1400 });
    assert_eq!(world.count(Counter::PacketTooBig), 2);
}

/// RFC 4443 exempts later fragments of IPv6 from nothing.
#[test]
fn later_fragments_of_ipv6_too_long_for_the_next_link_are_told() {
    let mut world = World::new(&Plan { mtus: [1500, 1300], ..Plan::default() });
    let frame = udp(Link::CLIENT, "[2001:db8::9]:5000", "[fd09::1]:53", &[7; 3000]);
    let short = crate::fragments::cut(&frame, 7, 1200);
    let long = crate::fragments::cut(&frame, 7, 1400);
    assert_eq!(world.one(OUTSIDE, &short[0]).unwrap().0, INSIDE);
    let (port, sent) = world.one(OUTSIDE, &long[1]).unwrap();
    assert_eq!(port, OUTSIDE);
    let parsed = PacketHeaders::from_ethernet_slice(&sent).unwrap();
    let Some(TransportHeader::Icmpv6(icmp)) = parsed.transport else { panic!("no ICMPv6") };
    assert_eq!(icmp.icmp_type, Icmpv6Type::PacketTooBig { mtu: 1300 });
}

/// RFC 6633 asks to discard source quenches, RFC 1812 to ignore redirects.
#[test]
fn source_quenches_and_redirects_are_discarded() {
    let mut world = World::new(&Plan::default());
    let (client, vip) = ("9.9.9.9:5000", "10.9.0.1:53");
    let (_, sent) = world.one(OUTSIDE, &udp(Link::CLIENT, client, vip, b"query")).unwrap();
    for kind in [4, 5] {
        let quench = Icmpv4Type::Unknown { type_u8: kind, code_u8: 0, bytes5to8: [0; 4] };
        let error = icmp4(Link::from_backend(1), "10.1.0.11", "9.9.9.9", quench, quote(&sent));
        world.drops(INSIDE, &error, Counter::IcmpUnsupported);
    }
    assert_eq!(world.count(Counter::IcmpTranslated), 0);
}

/// What an error quotes of a frame.
fn quote(frame: &[u8]) -> &[u8] {
    &frame[14..]
}

#[test]
fn errors_reach_the_connection_they_speak_of_in_both_directions() {
    let unreachable = || Icmpv4Type::DestinationUnreachable(icmpv4::DestUnreachableHeader::Host);
    for connections in [64, 0] {
        // Without room in the table the connection is served statelessly.
        let mut world = World::new(&Plan { connections, ..Plan::default() });
        let (client, vip) = ("9.9.9.9:5000", "10.9.0.1:53");
        let (_, sent) = world.one(OUTSIDE, &udp(Link::CLIENT, client, vip, b"query")).unwrap();
        let (n, server) = (sent[5], crate::world::destination(&sent));
        let server_ip = server.ip().to_string();
        // The backend refuses; the client must see its own packet and the VIP.
        let error =
            icmp4(Link::from_backend(n), &server_ip, "9.9.9.9", unreachable(), quote(&sent));
        let seen = udp(Link::CLIENT.ttl(59), client, vip, b"query");
        let wanted = icmp4(Link::TO_CLIENT, "10.9.0.1", "9.9.9.9", unreachable(), quote(&seen));
        assert_eq!(world.one(INSIDE, &error), Some((OUTSIDE, wanted)));
        // A router between refuses the answer; the backend must see its own.
        let answer = udp(Link::from_backend(n), &server.to_string(), client, b"answer");
        let (_, sent) = world.one(INSIDE, &answer).unwrap();
        let error = icmp4(Link::CLIENT, "9.1.1.1", "10.9.0.1", unreachable(), quote(&sent));
        let seen = udp(Link::from_backend(n).ttl(63), &server.to_string(), client, b"answer");
        let wanted = icmp4(Link::to_backend(n), "9.1.1.1", &server_ip, unreachable(), quote(&seen));
        assert_eq!(world.one(OUTSIDE, &error), Some((INSIDE, wanted)));
        assert_eq!(world.count(Counter::IcmpTranslated), 2);
    }
}

#[test]
fn errors_of_fullnat_and_ipv6_are_translated() {
    let mut world = World::new(&Plan::default());
    let too_big = || Icmpv6Type::PacketTooBig { mtu: 1300 };
    let (client, vip) = ("[2001:db8::9]:5000", "[fd09::3]:80");
    let (_, sent) = world.one(OUTSIDE, &tcp(Link::CLIENT, client, vip, "S", b"")).unwrap();
    let (local, server) = (crate::world::source(&sent), crate::world::destination(&sent));
    let error =
        icmp6(Link::from_backend(1), "fd01::77", &local.ip().to_string(), too_big(), quote(&sent));
    let seen = tcp(Link::CLIENT.ttl(59), client, vip, "S", b"");
    let wanted = icmp6(Link::TO_CLIENT, "fd09::3", "2001:db8::9", too_big(), quote(&seen));
    assert_eq!(world.one(INSIDE, &error), Some((OUTSIDE, wanted)));
    let answer = tcp(Link::from_backend(1), &server.to_string(), &local.to_string(), "SA", b"");
    let (_, sent) = world.one(INSIDE, &answer).unwrap();
    let error = icmp6(Link::CLIENT, "2001:db8::1", "fd09::3", too_big(), quote(&sent));
    let seen =
        tcp(Link::from_backend(1).ttl(63), &server.to_string(), &local.to_string(), "SA", b"");
    let wanted =
        icmp6(Link::to_backend(1), &local.ip().to_string(), "fd01::11", too_big(), quote(&seen));
    assert_eq!(world.one(OUTSIDE, &error), Some((INSIDE, wanted)));
}

#[test]
fn errors_about_nothing_of_ours_are_dropped() {
    let mut world = World::new(&Plan::default());
    let unreachable = || Icmpv4Type::DestinationUnreachable(icmpv4::DestUnreachableHeader::Host);
    let foreign = udp(Link::TO_CLIENT, "8.8.8.8:1", "7.7.7.7:2", b"");
    let error = icmp4(Link::CLIENT, "9.1.1.1", "8.8.8.8", unreachable(), quote(&foreign));
    world.drops(OUTSIDE, &error, Counter::IcmpUnrelated);
    let ours = udp(Link::TO_CLIENT, "10.9.0.1:53", "9.9.9.9:5000", b"");
    let other_receiver = icmp4(Link::CLIENT, "9.1.1.1", "10.9.0.2", unreachable(), quote(&ours));
    world.drops(OUTSIDE, &other_receiver, Counter::IcmpUnrelated);
    let cut = icmp4(Link::CLIENT, "9.1.1.1", "10.9.0.1", unreachable(), &quote(&ours)[..22]);
    world.drops(OUTSIDE, &cut, Counter::BadIcmp);
    let _ = (LB_IN, backend_mac(1));
}
