//! Bursts of which the NIC knows some packets and the connection table others.
use std::net::{IpAddr, SocketAddr};

use packet::HeapPacket;
use state::{Counter, Marked};
use wire::Headers;

use crate::world::{INSIDE, Link, OUTSIDE, Plan, TAGGED, World, destination, tcp};

/// A client and the service that it speaks to.
const ENDS: [(&str, &str); 8] = [
    ("192.0.2.1:1000", "10.9.0.1:80"),
    ("[2001:db8::1]:1001", "[fd09::1]:80"),
    ("[2001:db8::1]:1002", "[fd09::1]:80"),
    ("192.0.2.1:1003", "10.9.0.1:80"),
    ("192.0.2.1:1004", "10.9.0.1:80"),
    ("192.0.2.1:1005", "10.9.0.1:80"),
    ("[2001:db8::1]:1006", "[fd09::1]:80"),
    ("192.0.2.1:1007", "10.9.0.1:80"),
];

/// Whatever part of a burst is marked, at whichever places, of both families and
/// on tagged interfaces: packets keep their order, come out the same, and are
/// counted by what they were matched by.
#[test]
fn marked_packets_and_others_are_told_apart() {
    for vlans in TAGGED {
        check(&ENDS, vlans);
    }
    check(&[ENDS[0], ENDS[3], ENDS[4], ENDS[5], ENDS[7]], [None, None]);
    check(&[ENDS[1], ENDS[2], ENDS[6]], [None, None]);
}

fn check(ends: &[(&str, &str)], vlans: [Option<u16>; 2]) {
    let [outside, inside] = vlans;
    let from_client = Link::CLIENT.tagged(outside);
    let mut world = World::new(&Plan { vlans, ..Plan::default() });
    let mut servers = Vec::new();
    for (mark, (client, vip)) in ends.iter().enumerate() {
        let syn = tcp(from_client, client, vip, "S", b"");
        let (_, sent) = world.one(OUTSIDE, &syn).unwrap();
        let server = destination(&sent);
        servers.push(server);
        let link = Link::from_backend(number(server)).tagged(inside);
        world.one(INSIDE, &tcp(link, &server.to_string(), client, "SA", b"")).unwrap();
        world.one(OUTSIDE, &tcp(from_client, client, vip, "A", b"")).unwrap();
        let key = Headers::parse(&syn).unwrap().flow(&syn).unwrap();
        let hit = world.shared.table().lookup(&key).unwrap();
        let marks = &world.shared.port(OUTSIDE).unwrap().marks;
        assert!(marks.set(mark as u32, Marked { conn: hit.conn, direction: hit.direction }));
    }
    for pattern in 0..1_u32 << ends.len() {
        let (marked, found) = (Counter::MatchedByMark, Counter::LookedUp);
        let before = [world.count(marked), world.count(found)];
        let payload = [b"of some length ".as_slice(), &pattern.to_be_bytes()].concat();
        let packet = |(n, (client, vip)): (usize, &(&str, &str))| {
            let frame = tcp(from_client, client, vip, "A", &payload);
            HeapPacket::new(&frame).with_mark((pattern >> n & 1 == 1).then_some(n as u32))
        };
        let expected: Vec<_> = ends
            .iter()
            .zip(&servers)
            .map(|((client, _), server)| {
                let link = Link::to_backend(number(*server)).tagged(inside);
                (INSIDE, tcp(link, client, &server.to_string(), "A", &payload))
            })
            .collect();
        let packets = ends.iter().enumerate().map(packet).collect();
        assert_eq!(world.burst(OUTSIDE, packets), expected, "{pattern:08b}");
        let marks = u64::from(pattern.count_ones());
        let counted = [world.count(marked) - before[0], world.count(found) - before[1]];
        assert_eq!(counted, [marks, ends.len() as u64 - marks], "{pattern:08b}");
    }
}

/// The number of the backend at `server`.
fn number(server: SocketAddr) -> u8 {
    match server.ip() {
        IpAddr::V4(ip) => ip.octets()[3] - 10,
        IpAddr::V6(ip) => ip.octets()[15] - 0x10,
    }
}
