//! Connections of a removed backend whose service resets them.
use conntrack::{ConnState, Hit};
use etherparse::{PacketHeaders, TcpHeader, TransportHeader};
use flow::PortId;
use packet::HeapPacket;
use state::{Counter, Marked};

use crate::world::{INSIDE, Link, OUTSIDE, Plan, TAGGED, World, destination, source, tcp};

/// A client, a VIP, its first backend, and what that sees of the client.
const CASES: [(&str, &str, &str); 2] = [
    ("9.9.9.9:5000", "10.9.0.1:80", "10.1.0.11:8080"),
    ("[2001:db8::9]:5000", "[fd09::1]:80", "[fd01::11]:8080"),
];

fn read(frame: &[u8]) -> TcpHeader {
    let parsed = PacketHeaders::from_ethernet_slice(frame).unwrap();
    let Some(TransportHeader::Tcp(tcp)) = parsed.transport else { panic!("no TCP") };
    assert!(parsed.payload.slice().is_empty());
    tcp
}

/// An open connection, and its place in the table.
fn open(world: &mut World, link: Link, (client, vip, server): (&str, &str, &str)) -> Hit {
    let vlans = (link.vlan, Link::from_backend(1));
    let syn = tcp(link, client, vip, "S", b"");
    let (_, sent) = world.one(OUTSIDE, &syn).unwrap();
    assert_eq!(destination(&sent), server.parse().unwrap());
    let answer = tcp(vlans.1, server, client, "SA", b"");
    world.one(INSIDE, &answer).unwrap();
    world.one(OUTSIDE, &tcp(link, client, vip, "A", b"")).unwrap();
    let headers = wire::Headers::parse(&syn).unwrap();
    let hit = world.shared.table().lookup(&headers.flow(&syn).unwrap()).unwrap();
    assert_eq!(world.shared.table().state(hit.conn), Some(ConnState::Established));
    hit
}

/// The RSTs that `frame` brought about: back to where it came from, and on.
fn resets(world: &mut World, port: PortId, frame: &[u8], mark: Option<u32>) -> [TcpHeader; 2] {
    let sent = world.burst(port, vec![HeapPacket::new(frame).with_mark(mark)]);
    let [(back, answer), (on, reset)] = &sent[..] else { panic!("{} packets", sent.len()) };
    assert!(*back == port && *on != port);
    assert_eq!((source(answer), destination(answer)), (destination(frame), source(frame)));
    let found = [answer, reset].map(|frame| read(frame));
    assert!(found.iter().all(|tcp| tcp.rst && !tcp.syn && !tcp.fin && !tcp.psh));
    assert!([answer, reset].iter().all(|frame| testkit::segments::seen(frame).is_some()));
    found
}

#[test]
fn the_next_packet_of_either_side_resets_both() {
    for case in CASES {
        let (client, vip, server) = case;
        let data = |link: Link| tcp(link, client, vip, "PA", b"hello");
        let answer = tcp(Link::from_backend(1), server, client, "PA", b"answer");
        for marked in [false, true] {
            let mut world = World::new(&Plan::default());
            let hit = open(&mut world, Link::CLIENT, case);
            let mark = marked.then(|| {
                let marks = &world.shared.port(OUTSIDE).unwrap().marks;
                marks.set(5, Marked { conn: hit.conn, direction: hit.direction });
                5
            });
            assert!(world.shared.table().revoke(hit.conn, world.now_ms));
            let [back, on] = resets(&mut world, OUTSIDE, &data(Link::CLIENT), mark);
            // What the client acknowledged, and what the backend expects next.
            assert_eq!((back.sequence_number, back.ack), (99, false));
            assert_eq!((on.sequence_number, on.ack, on.acknowledgment_number), (7, true, 99));
            let [back, on] = resets(&mut world, INSIDE, &answer, None);
            assert_eq!((back.sequence_number, on.sequence_number), (99, 7));
            assert_eq!(world.count(Counter::Revoked), 2);
            assert_eq!(world.count(Counter::OriginatedPackets), 2);
            // A RST needs no answer and goes on.
            let reset = tcp(Link::CLIENT, client, vip, "R", b"");
            let (port, sent) = world.one(OUTSIDE, &reset).unwrap();
            assert!(port == INSIDE && read(&sent).rst);
        }
    }
}

#[test]
fn a_tag_stays_with_its_side() {
    for vlans in TAGGED {
        let mut world = World::new(&Plan { vlans, ..Plan::default() });
        let link = Link::CLIENT.tagged(vlans[0]);
        let (client, vip, _) = CASES[0];
        world.one(OUTSIDE, &tcp(link, client, vip, "S", b"")).unwrap();
        let data = tcp(link, client, vip, "PA", b"hello");
        let key = wire::Headers::parse(&data).unwrap().flow(&data).unwrap();
        let hit = world.shared.table().lookup(&key).unwrap();
        assert!(world.shared.table().revoke(hit.conn, world.now_ms));
        let sent = world.burst(OUTSIDE, vec![HeapPacket::new(&data)]);
        let tags: Vec<_> =
            sent.iter().map(|(_, f)| wire::Headers::parse(f).unwrap().vlan).collect();
        assert_eq!(tags, vlans);
    }
}

#[test]
fn what_has_ended_or_has_rules_is_not_revoked() {
    let mut world = World::new(&Plan::default());
    let hit = open(&mut world, Link::CLIENT, CASES[0]);
    let (client, vip, server) = CASES[0];
    use conntrack::OffloadState::{Installed, None};
    let table = world.shared.table();
    assert!(table.change_offload(hit.conn, None, Installed));
    assert!(!table.revoke(hit.conn, 1000));
    assert!(table.change_offload(hit.conn, Installed, None));
    world.one(OUTSIDE, &tcp(Link::CLIENT, client, vip, "FA", b"")).unwrap();
    world.one(INSIDE, &tcp(Link::from_backend(1), server, client, "FA", b"")).unwrap();
    assert!(!world.shared.table().revoke(hit.conn, 1000));
    let query = crate::world::udp(Link::CLIENT, client, "10.9.0.1:53", b"?");
    world.one(OUTSIDE, &query).unwrap();
    let key = wire::Headers::parse(&query).unwrap().flow(&query).unwrap();
    let hit = world.shared.table().lookup(&key).unwrap();
    assert!(!world.shared.table().revoke(hit.conn, 1000));
}
