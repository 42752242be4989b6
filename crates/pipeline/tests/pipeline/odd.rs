//! Packets that open, end and bring about nothing: impossible sources, headers that
//! contradict themselves, segments that begin no connection.
use etherparse::{IcmpEchoHeader, Icmpv4Type, Icmpv6Type};
use packet::HeapPacket;
use state::Counter;
use testkit::frames::Sum;
use wire::{Transport, checksum};

use crate::icmp::{icmp4, icmp6};
use crate::world::{INSIDE, LB_OUT, Link, OUTSIDE, Plan, World, at, tcp, udp};

const CLIENT: &str = "9.9.9.9:5000";
const CLIENT6: &str = "[2001:db8::9]:5000";

/// Sources that no host can have, and whether a host on the link can.
const SOURCES: &[(&str, bool)] = &[
    ("0.1.2.3", false),
    ("127.0.0.1", false),
    ("224.0.0.1", false),
    ("240.0.0.1", false),
    ("255.255.255.255", false),
    // The network and broadcast addresses of both interfaces.
    ("10.0.0.0", false),
    ("10.0.0.255", false),
    ("10.1.0.0", false),
    ("10.1.0.255", false),
    // The load balancer's own: interfaces, VIPs, pool.
    ("10.0.0.1", false),
    ("10.9.0.1", false),
    ("10.9.0.2", false),
    ("10.1.0.100", false),
    ("169.254.3.4", true),
    ("::", false),
    ("::1", false),
    ("ff02::1", false),
    ("::ffff:10.71.0.5", false),
    ("fd00::1", false),
    ("fd09::1", false),
    ("fd01::100", false),
    ("fe80::5", true),
];

#[test]
fn nothing_is_opened_from_impossible_sources() {
    let mut world = World::new(&Plan::default());
    for (source, _) in SOURCES {
        let (source, vip) = match source.contains(':') {
            true => (format!("[{source}]:5000"), "[fd09::1]"),
            false => (format!("{source}:5000"), "10.9.0.1"),
        };
        let syn = tcp(Link::CLIENT, &source, &format!("{vip}:80"), "S", b"");
        world.drops(OUTSIDE, &syn, Counter::BadSource);
        let query = udp(Link::CLIENT, &source, &format!("{vip}:53"), b"?");
        world.drops(OUTSIDE, &query, Counter::BadSource);
    }
    assert_eq!(world.count(Counter::Installed), 0);
    // Next to the impossible ones there are clients.
    for source in ["1.1.1.1", "10.0.0.2", "10.0.0.254", "223.255.255.255", "169.253.0.1"] {
        let syn = tcp(Link::CLIENT, &format!("{source}:5000"), "10.9.0.1:80", "S", b"");
        assert!(world.one(OUTSIDE, &syn).is_some(), "{source}");
    }
}

#[test]
fn impossible_sources_get_no_answer() {
    let echo = IcmpEchoHeader { id: 3, seq: 4 };
    let mut world = World::new(&Plan::default());
    for &(source, answered) in SOURCES {
        let ask = match source.contains(':') {
            true => icmp6(Link::CLIENT, source, "fd09::1", Icmpv6Type::EchoRequest(echo), b"d"),
            false => icmp4(Link::CLIENT, source, "10.9.0.1", Icmpv4Type::EchoRequest(echo), b"d"),
        };
        match answered {
            true => assert!(world.one(OUTSIDE, &ask).is_some(), "{source}"),
            false => world.drops(OUTSIDE, &ask, Counter::BadSource),
        }
        // Nor are they told that the TTL has run out.
        let (source, vip) = match source.contains(':') {
            true => (format!("[{source}]:5000"), "[fd09::1]:80"),
            false => (format!("{source}:5000"), "10.9.0.1:80"),
        };
        assert_eq!(world.one(OUTSIDE, &tcp(Link::CLIENT.ttl(1), &source, vip, "S", b"")), None);
    }
}

/// A frame of a client's TCP segment or datagram to the VIP, byte by byte.
fn frame(v4: bool, proto: Transport, flags: u8, change: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let (src, vip) = if v4 { (CLIENT, "10.9.0.1") } else { (CLIENT6, "[fd09::1]") };
    let port = if proto == Transport::Tcp { 80 } else { 53 };
    let (src, dst) = (at(src), at(&format!("{vip}:{port}")));
    let mut bytes = testkit::frames::transport(proto, src, dst, flags, &[7; 20], Sum::Right);
    change(&mut bytes);
    let link = testkit::frames::Link { src: Link::CLIENT.src.0, dst: LB_OUT.0, vlan: None };
    let shape = testkit::frames::Shape { ttl: 60, ..Default::default() };
    testkit::frames::ip(link, [src.ip(), dst.ip()], proto.number(), &bytes, &shape, None)
}

/// As the only packet of a burst (slow after the fast path has left it) and among
/// others.
fn opens_nothing(bad: &[u8], counter: Counter) {
    let mut world = World::new(&Plan::default());
    world.drops(OUTSIDE, bad, counter);
    let good = |n: u16| tcp(Link::CLIENT, &format!("9.9.9.8:{n}"), "10.9.0.1:80", "S", b"");
    let burst = [&good(1), bad, &good(2)].map(HeapPacket::new);
    assert_eq!(world.burst(OUTSIDE, burst.into()).len(), 2);
    assert_eq!(world.count(counter), 2, "{}", counter.name());
    assert_eq!(world.count(Counter::Installed), 2);
}

#[test]
fn headers_that_contradict_themselves_open_nothing() {
    for v4 in [true, false] {
        for length in [[0, 4], [0, 100], [0, 29]] {
            let bad = frame(v4, Transport::Udp, 0, |udp| udp[4..6].copy_from_slice(&length));
            opens_nothing(&bad, Counter::BadUdpLength);
        }
        for offset in [0x40, 0xb0, 0xf0] {
            let bad = frame(v4, Transport::Tcp, 2, |tcp| tcp[12] = offset);
            opens_nothing(&bad, Counter::BadDataOffset);
        }
        for flags in [0, 3, 6, 7, 8, 0x2b] {
            let bad = frame(v4, Transport::Tcp, flags, |_| {});
            opens_nothing(&bad, Counter::BadTcpFlags);
        }
    }
    for proto in [Transport::Tcp, Transport::Udp] {
        let mut bad = frame(true, proto, 2, |_| {});
        bad[24] ^= 1;
        opens_nothing(&bad, Counter::BadHeaderChecksum);
    }
}

#[test]
fn a_nic_that_verifies_header_checksums_is_believed() {
    for proto in [Transport::Tcp, Transport::Udp] {
        let mut world = World::new(&Plan::default());
        let mut bad = frame(true, proto, 2, |_| {});
        bad[24] ^= 1;
        assert_eq!(world.burst(OUTSIDE, vec![HeapPacket::new(&bad)]).len(), 0);
        assert_eq!(world.burst(OUTSIDE, vec![HeapPacket::new(&bad).verified()]).len(), 1);
    }
}

#[test]
fn a_known_connection_is_not_ended_by_a_packet_that_cannot_be() {
    let mut world = World::new(&Plan::default());
    for flags in ["S", "A"] {
        world.one(OUTSIDE, &tcp(Link::CLIENT, CLIENT, "10.9.0.1:80", flags, b"")).unwrap();
    }
    let key = wire::FlowKey::new(Transport::Tcp, at(CLIENT), at("10.9.0.1:80")).unwrap();
    let state = |world: &World| {
        world.shared.table().state(world.shared.table().lookup(&key).unwrap().conn).unwrap()
    };
    let before = state(&world);
    world.drops(OUTSIDE, &frame(true, Transport::Tcp, 5, |_| {}), Counter::BadTcpFlags);
    let fin = frame(true, Transport::Tcp, 0x11, |tcp| tcp[12] = 0xf0);
    world.drops(OUTSIDE, &fin, Counter::BadDataOffset);
    let mut reset = frame(true, Transport::Tcp, 4, |_| {});
    reset[25] ^= 4;
    world.drops(OUTSIDE, &reset, Counter::BadHeaderChecksum);
    assert_eq!(state(&world), before);
}

#[test]
fn segments_that_begin_no_connection_open_none() {
    let mut world = World::new(&Plan::default());
    for (client, vip, full) in
        [(CLIENT, "10.9.0.1:80", "10.9.0.3:80"), (CLIENT6, "[fd09::1]:80", "[fd09::3]:80")]
    {
        world.drops(
            OUTSIDE,
            &tcp(Link::CLIENT, client, vip, "SA", b""),
            Counter::UnknownConnection,
        );
        world.drops(
            OUTSIDE,
            &tcp(Link::CLIENT, client, full, "R", b""),
            Counter::UnknownConnection,
        );
        for flags in ["R", "RA"] {
            let reset = tcp(Link::CLIENT, client, vip, flags, b"");
            let (port, sent) = world.one(OUTSIDE, &reset).expect("the backend is told");
            assert_eq!(port, INSIDE);
            // To the backend that Maglev serves the connection by without a table.
            assert_eq!(world.one(OUTSIDE, &reset), Some((port, sent)));
        }
    }
    assert_eq!(world.count(Counter::Installed), 0);
    assert_eq!(world.count(Counter::Stateless), 8);
}

#[test]
fn an_error_with_a_wrong_checksum_is_translated_for_no_one() {
    let mut world = World::new(&Plan::default());
    let (_, sent) =
        world.one(OUTSIDE, &tcp(Link::CLIENT, CLIENT, "10.9.0.1:80", "S", b"")).unwrap();
    let link =
        testkit::frames::Link { src: [2, 0, 0, 0, 1, 1], dst: crate::world::LB_IN.0, vlan: None };
    let error = testkit::frames::complaint(link, &sent, "10.1.0.77".parse().unwrap(), false);
    let error = error.unwrap();
    let mut bad = error.clone();
    bad[36] ^= 1;
    world.drops(INSIDE, &bad, Counter::BadIcmp);
    bad = error.clone();
    bad[24] ^= 1;
    world.drops(INSIDE, &bad, Counter::BadHeaderChecksum);
    bad = error.clone();
    bad[26..30].copy_from_slice(&[127, 0, 0, 1]);
    bad[24..26].fill(0);
    let sum = checksum::of(&bad[14..34], 0);
    bad[24..26].copy_from_slice(&sum.to_be_bytes());
    world.drops(INSIDE, &bad, Counter::BadSource);
    assert!(world.one(INSIDE, &error).is_some());
}

/// A later fragment that its receiver would drop neither waits nor goes on.
#[test]
fn a_later_fragment_with_a_wrong_header_checksum_is_dropped() {
    let mut world = World::new(&Plan::default());
    let datagram = udp(Link::CLIENT, CLIENT, "10.9.0.1:53", &[1; 200]);
    let pieces = crate::fragments::cut(&datagram, 5, 64);
    let mut bad = pieces[1].clone();
    bad[24] ^= 1;
    world.drops(OUTSIDE, &bad, Counter::BadHeaderChecksum);
    assert_eq!(world.count(Counter::FragmentsHeld), 0);
    world.one(OUTSIDE, &pieces[0]).unwrap();
    world.drops(OUTSIDE, &bad, Counter::BadHeaderChecksum);
    assert!(world.one(OUTSIDE, &pieces[1]).is_some());
}
