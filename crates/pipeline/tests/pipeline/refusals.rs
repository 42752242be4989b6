//! What clients are told whose packet no service or no backend takes.
use etherparse::{Icmpv4Type, Icmpv6Type, PacketHeaders, TcpHeader, TransportHeader};
use etherparse::{icmpv4, icmpv6};
use flow::Refuse;
use state::Counter;

use crate::world::{
    INSIDE, LB_OUT, Link, OUTSIDE, Plan, TAGGED, World, destination, source, tcp, udp,
};

/// A client, a port of a VIP with a service, and one without.
const CASES: [(&str, &str, &str, &str); 2] = [
    ("9.9.9.9:5000", "10.9.0.1:80", "10.9.0.1:81", "10.9.0.1:5353"),
    ("[2001:db8::9]:5000", "[fd09::1]:80", "[fd09::1]:81", "[fd09::1]:5353"),
];

fn plan(refuse: Refuse) -> Plan {
    Plan { refuse, ..Plan::default() }
}

/// The TCP header of a RST that went back where `asked` came from.
fn reset(world: &mut World, asked: &[u8]) -> TcpHeader {
    let before = world.count(Counter::TcpReset);
    let (port, sent) = world.one(OUTSIDE, asked).expect("a RST");
    assert_eq!(world.count(Counter::TcpReset), before + 1);
    assert_eq!((port, &sent[..6], &sent[6..12]), (OUTSIDE, &asked[6..12], &LB_OUT.0[..]));
    assert_eq!((source(&sent), destination(&sent)), (destination(asked), source(asked)));
    let parsed = PacketHeaders::from_ethernet_slice(&sent).unwrap();
    assert_eq!(parsed.vlan_ids(), PacketHeaders::from_ethernet_slice(asked).unwrap().vlan_ids());
    let Some(TransportHeader::Tcp(tcp)) = parsed.transport else { panic!("no TCP") };
    assert!(tcp.rst && !tcp.syn && !tcp.fin);
    tcp
}

/// Asserts that `asked` is answered by port unreachable, from the VIP.
fn unreachable(world: &mut World, asked: &[u8]) {
    let (port, sent) = world.one(OUTSIDE, asked).expect("an ICMP error");
    let headers = wire::Headers::parse(&sent).unwrap();
    assert_eq!((port, headers.src_addr(&sent)), (OUTSIDE, Some(destination(asked).ip())));
    assert_eq!(headers.dst_addr(&sent), Some(source(asked).ip()));
    match PacketHeaders::from_ethernet_slice(&sent).unwrap().transport.unwrap() {
        TransportHeader::Icmpv4(icmp) => {
            let port = icmpv4::DestUnreachableHeader::Port;
            assert_eq!(icmp.icmp_type, Icmpv4Type::DestinationUnreachable(port));
        }
        TransportHeader::Icmpv6(icmp) => {
            let port = icmpv6::DestUnreachableCode::Port;
            assert_eq!(icmp.icmp_type, Icmpv6Type::DestinationUnreachable(port));
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn closed_ports_answer_as_a_host_does() {
    for vlans in TAGGED {
        let mut world = World::new(&Plan { vlans, ..plan(Refuse::Reset) });
        let link = Link::CLIENT.tagged(vlans[0]);
        for (client, _, closed, closed_udp) in CASES {
            let syn = reset(&mut world, &tcp(link, client, closed, "S", b"hello"));
            assert_eq!((syn.ack, syn.sequence_number, syn.acknowledgment_number), (true, 0, 13));
            let data = reset(&mut world, &tcp(link, client, closed, "A", b"hello"));
            assert_eq!((data.ack, data.sequence_number), (false, 99));
            let before = world.count(Counter::PortUnreachable);
            unreachable(&mut world, &udp(link, client, closed_udp, b"hello"));
            // As traceroute and tracepath ask: the VIP is the end of the way.
            unreachable(&mut world, &udp(link.ttl(1), client, closed_udp, &[0; 1400]));
            assert_eq!(world.count(Counter::PortUnreachable), before + 2);
        }
        assert_eq!(world.count(Counter::ClosedPortRefused), 8);
        assert_eq!(world.count(Counter::ClosedPort), 0);
    }
}

#[test]
fn closed_ports_answer_as_configured() {
    for (client, _, closed, closed_udp) in CASES {
        let mut world = World::new(&plan(Refuse::Unreachable));
        unreachable(&mut world, &tcp(Link::CLIENT, client, closed, "S", b""));
        unreachable(&mut world, &udp(Link::CLIENT, client, closed_udp, b"hello"));
        let mut world = World::new(&plan(Refuse::Drop));
        let syn = tcp(Link::CLIENT, client, closed, "S", b"");
        world.drops(OUTSIDE, &syn, Counter::ClosedPort);
        let query = udp(Link::CLIENT, client, closed_udp, b"hello");
        world.drops(OUTSIDE, &query, Counter::ClosedPort);
    }
}

#[test]
fn nobody_is_told_who_must_not_be() {
    let mut world = World::new(&plan(Refuse::Reset));
    for (client, _, closed, closed_udp) in CASES {
        for flags in ["R", "RA"] {
            let reset = tcp(Link::CLIENT, client, closed, flags, b"");
            world.drops(OUTSIDE, &reset, Counter::ClosedPort);
        }
        // Wrong transport checksums: the ports may be others.
        let mut bad = tcp(Link::CLIENT, client, closed, "S", b"");
        *bad.last_mut().unwrap() ^= 1;
        world.drops(OUTSIDE, &bad, Counter::ClosedPort);
        let mut bad = udp(Link::CLIENT, client, closed_udp, b"hello");
        *bad.last_mut().unwrap() ^= 1;
        world.drops(OUTSIDE, &bad, Counter::ClosedPort);
        let mut group = tcp(Link::CLIENT, client, closed, "S", b"");
        group[6] |= 1;
        world.drops(OUTSIDE, &group, Counter::ClosedPort);
    }
    for client in ["10.0.0.255:1", "127.0.0.1:1", "10.9.0.1:81", "224.0.0.1:1"] {
        let syn = tcp(Link::CLIENT, client, "10.9.0.1:81", "S", b"");
        world.drops(OUTSIDE, &syn, Counter::BadSource);
    }
    for client in ["[::1]:1", "[ff02::1]:1", "[fd09::1]:81"] {
        let query = udp(Link::CLIENT, client, "[fd09::1]:81", b"");
        world.drops(OUTSIDE, &query, Counter::BadSource);
    }
    // Neither for addresses that are not VIPs, nor where frames are for another.
    let syn = tcp(Link::CLIENT, "9.9.9.9:1", "10.0.0.1:81", "S", b"");
    world.drops(OUTSIDE, &syn, Counter::NotForUs);
    let link = Link { dst: wire::Mac([0xff; 6]), ..Link::CLIENT };
    let syn = tcp(link, "9.9.9.9:1", "10.9.0.1:81", "S", b"");
    world.drops(OUTSIDE, &syn, Counter::GroupMac);
    assert_eq!(world.count(Counter::TcpReset) + world.count(Counter::PortUnreachable), 0);
}

#[test]
fn refusals_are_limited_together() {
    let mut world = World::new(&Plan { icmp_errors: 3, ..plan(Refuse::Reset) });
    let (client, _, closed, closed_udp) = CASES[0];
    for n in 0..10 {
        let asked = match n % 2 {
            0 => tcp(Link::CLIENT, client, closed, "S", b""),
            _ => udp(Link::CLIENT, client, closed_udp, b""),
        };
        assert_eq!(world.one(OUTSIDE, &asked).is_some(), n < 3);
    }
    assert_eq!((world.count(Counter::TcpReset), world.count(Counter::PortUnreachable)), (2, 1));
    assert_eq!((world.count(Counter::IcmpLimited), world.count(Counter::ClosedPort)), (7, 7));
}

#[test]
fn drained_services_refuse() {
    // The services with one backend have none left.
    let mut world = World::new(&Plan { drained: true, ..plan(Refuse::Reset) });
    let syn = tcp(Link::CLIENT, CASES[0].0, "10.9.0.2:999", "S", b"");
    assert_eq!(reset(&mut world, &syn).acknowledgment_number, 8);
    let syn = tcp(Link::CLIENT, CASES[1].0, "[fd09::3]:80", "S", b"");
    reset(&mut world, &syn);
    unreachable(&mut world, &udp(Link::CLIENT, CASES[0].0, "10.9.0.6:53", b"?"));
    assert_eq!(world.count(Counter::NoBackendRefused), 3);
    let mut world = World::new(&Plan { drained: true, ..plan(Refuse::Drop) });
    let syn = tcp(Link::CLIENT, CASES[0].0, "10.9.0.2:999", "S", b"");
    world.drops(OUTSIDE, &syn, Counter::NoBackend);
}

#[test]
fn conflicts_are_refused() {
    let mut world = World::new(&plan(Refuse::Reset));
    let first = tcp(Link::CLIENT, CASES[0].0, "10.9.0.4:80", "S", b"");
    assert_eq!(world.one(OUTSIDE, &first).unwrap().0, INSIDE);
    // The other VIP's only backend has the same 5-tuple on its side.
    reset(&mut world, &tcp(Link::CLIENT, CASES[0].0, "10.9.0.5:80", "S", b""));
    assert_eq!(world.count(Counter::ReplyConflictRefused), 1);
}

/// A backend that calls its own service and would be given itself.
#[test]
fn a_backend_does_not_serve_itself() {
    let mut world = World::new(&plan(Refuse::Reset));
    for (backend, vip) in [("10.1.0.14", "10.9.0.4:80"), ("10.1.0.13", "10.9.0.2:80")] {
        let n = backend.as_bytes()[8] - b'0';
        let syn = tcp(Link::from_backend(n), &format!("{backend}:7000"), vip, "S", b"");
        world.drops(INSIDE, &syn, Counter::Hairpin);
    }
    // Another backend can serve it.
    let syn = tcp(Link::from_backend(3), "10.1.0.13:7000", "10.9.0.4:80", "S", b"");
    assert_eq!(
        destination(&world.one(INSIDE, &syn).unwrap().1),
        crate::world::at("10.1.0.14:8080")
    );
}

#[test]
fn an_exhausted_pool_tries_other_backends_and_then_refuses() {
    let mut world = World::new(&Plan { pool_ports: 2, ..plan(Refuse::Reset) });
    let syn = |n: u16| tcp(Link::CLIENT, &format!("9.9.9.9:{n}"), "10.9.0.3:80", "S", b"");
    let mut served = 0;
    for n in 0..20 {
        let (port, _) = world.one(OUTSIDE, &syn(5000 + n)).unwrap();
        served += u32::from(port == INSIDE);
    }
    // Two backends, each with every endpoint of the pool once.
    assert_eq!(served, 4);
    assert_eq!(world.count(Counter::PoolExhaustedRefused), 16);
}
