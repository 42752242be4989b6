//! Bursts of which the NIC knows some packets and the connection table others.
use packet::HeapPacket;
use state::{Counter, Marked};
use wire::Headers;

use crate::world::{INSIDE, Link, OUTSIDE, Plan, World, destination, tcp};

const VIP: &str = "10.9.0.1:80";

/// Whatever part of a burst is marked, at whichever places: packets keep their
/// order, come out the same, and are counted by who knew them.
#[test]
fn marked_packets_and_others_are_told_apart() {
    let clients: Vec<String> = (0..8).map(|n| format!("192.0.2.1:{}", 1000 + n)).collect();
    let mut world = World::new(&Plan::default());
    let mut servers = Vec::new();
    for (mark, client) in clients.iter().enumerate() {
        let syn = tcp(Link::CLIENT, client, VIP, "S", b"");
        let (_, sent) = world.one(OUTSIDE, &syn).unwrap();
        let server = destination(&sent);
        servers.push(server);
        let back = tcp(Link::from_backend(number(server)), &server.to_string(), client, "SA", b"");
        world.one(INSIDE, &back).unwrap();
        world.one(OUTSIDE, &tcp(Link::CLIENT, client, VIP, "A", b"")).unwrap();
        let key = Headers::parse(&syn).unwrap().flow(&syn).unwrap();
        let hit = world.shared.table.lookup(&key).unwrap();
        let marks = &world.shared.port(OUTSIDE).unwrap().marks;
        assert!(marks.set(mark as u32, Marked { conn: hit.conn, direction: hit.direction }));
    }
    for pattern in 0..1_u32 << 8 {
        let (marked, found) = (Counter::MatchedByMark, Counter::LookedUp);
        let before = [world.count(marked), world.count(found)];
        let payload = [b"of some length ".as_slice(), &pattern.to_be_bytes()].concat();
        let packet = |n: usize| {
            let frame = tcp(Link::CLIENT, &clients[n], VIP, "A", &payload);
            HeapPacket::new(&frame).with_mark((pattern >> n & 1 == 1).then_some(n as u32))
        };
        let expected: Vec<_> = (0..8)
            .map(|n| {
                let link = Link::to_backend(number(servers[n]));
                (INSIDE, tcp(link, &clients[n], &servers[n].to_string(), "A", &payload))
            })
            .collect();
        assert_eq!(world.burst(OUTSIDE, (0..8).map(packet).collect()), expected, "{pattern:08b}");
        let marks = u64::from(pattern.count_ones());
        let counted = [world.count(marked) - before[0], world.count(found) - before[1]];
        assert_eq!(counted, [marks, 8 - marks], "{pattern:08b}");
    }
}

/// The number of the backend at `server`.
fn number(server: std::net::SocketAddr) -> u8 {
    let std::net::IpAddr::V4(ip) = server.ip() else { panic!("{server}") };
    ip.octets()[3] - 10
}
