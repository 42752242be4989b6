//! What a receive queue or a shared queue's mark means can change between two
//! bursts, and so can the way to the backend.
use conntrack::Hit;
use flow::{Direction, InterfaceId};
use packet::HeapPacket;
use state::{Counter, QueueAction};
use wire::{Headers, Mac};

use crate::world::{INSIDE, Link, OUTSIDE, Plan, World, backend_mac, destination, ip, tcp};

const VIP: &str = "10.9.0.1:80";
const CLIENTS: [&str; 2] = ["192.0.2.1:1001", "192.0.2.1:1002"];

fn packet(link: Link, client: &str, to: &str) -> Vec<u8> {
    tcp(link, client, to, "A", b"a payload of some length")
}

/// Opens a connection; its backend's number, and what queues of that backend
/// would mean, by direction.
fn open(world: &mut World, client: &str) -> (u8, [QueueAction; 2]) {
    let syn = tcp(Link::CLIENT, client, VIP, "S", b"");
    let key = Headers::parse(&syn).unwrap().flow(&syn).unwrap();
    let (_, sent) = world.one(OUTSIDE, &syn).unwrap();
    let std::net::IpAddr::V4(server) = destination(&sent).ip() else { panic!("{sent:?}") };
    let table = world.shared.table();
    let hit: Hit = table.lookup(&key).unwrap();
    let binding = table.binding(hit.conn).unwrap();
    let action = |direction| QueueAction {
        service: binding.service,
        backend: binding.backend,
        direction,
        proto: binding.proto,
        endpoint: if direction == Direction::Forward { binding.vip } else { binding.server },
        delivery: binding.delivery(direction).unwrap(),
        hop: table.action(Hit { direction, ..hit }).unwrap().hop,
    };
    (server.octets()[3] - 10, Direction::BOTH.map(action))
}

/// A meaning's changes, seen by packets of `queue` with `mark`, which is `tag`.
fn follows(tag: u16, queue: u16, mark: Option<u32>) {
    let mut world = World::new(&Plan::default());
    let [(one, [first, _]), (two, [second, _])] = CLIENTS.map(|client| open(&mut world, client));
    assert_ne!(one, two);
    let goes_to = |world: &mut World, link: Link, n: u8, what: &str| {
        let packets = [HeapPacket::new(&packet(Link::CLIENT, CLIENTS[0], VIP)).with_mark(mark)];
        let sent = world.burst_at(0, OUTSIDE, queue, packets.into());
        let expected = packet(link, CLIENTS[0], &format!("10.1.0.1{n}:8080"));
        assert_eq!(sent, [(INSIDE, expected)], "{what}");
    };
    let set = |world: &World, action| {
        assert!(world.shared.port(OUTSIDE).unwrap().queues.set(tag, action));
    };
    goes_to(&mut world, Link::to_backend(one), one, "it means nothing, the table knows");
    for round in 0..3 {
        let what = format!("round {round}");
        set(&world, Some(second));
        goes_to(&mut world, Link::to_backend(two), two, &what);
        set(&world, Some(first));
        goes_to(&mut world, Link::to_backend(one), one, &what);
    }
    // The backend has another Ethernet address now.
    let moved = Mac([2, 0, 0, 0, 77, 1]);
    let neighbours = world.shared.neighbours();
    neighbours.set_static(InterfaceId(1), ip(&format!("10.1.0.1{one}")), moved);
    let link = Link { dst: moved, ..Link::to_backend(one) };
    goes_to(&mut world, link, one, "another Ethernet address");
    assert_ne!(moved, backend_mac(one));
    set(&world, Some(second));
    goes_to(&mut world, Link::to_backend(two), two, "the other again");
    set(&world, None);
    goes_to(&mut world, link, one, "it means nothing any more");
}

#[test]
fn the_meaning_of_a_queue_is_followed_at_once() {
    follows(3, 3, None);
}

#[test]
fn the_meaning_of_a_shared_queues_mark_is_followed_at_once() {
    follows(17, 0, Some(17));
}

/// Queues of two ports have the same numbers, and marks numbers that agree with
/// queues modulo whatever a worker remembers of them.
#[test]
fn meanings_of_like_numbers_are_kept_apart() {
    let mut world = World::new(&Plan::default());
    let [(one, [there, back]), (two, [other, _])] = CLIENTS.map(|client| open(&mut world, client));
    let client = CLIENTS[0];
    let marks = [1024 + 3, 2048 + 3];
    let set = |port, tag, action| {
        assert!(world.shared.port(port).unwrap().queues.set(tag, Some(action)));
    };
    set(OUTSIDE, 3, there);
    set(INSIDE, 3, back);
    for mark in marks {
        set(OUTSIDE, mark, other);
    }
    let server = |n| format!("10.1.0.1{n}:8080");
    for round in 0..3 {
        let asked = packet(Link::CLIENT, client, VIP);
        let sent = world.burst_at(0, OUTSIDE, 3, vec![HeapPacket::new(&asked)]);
        let expected = packet(Link::to_backend(one), client, &server(one));
        assert_eq!(sent, [(INSIDE, expected)], "round {round}");
        let answered = packet(Link::from_backend(one), &server(one), client);
        let sent = world.burst_at(0, INSIDE, 3, vec![HeapPacket::new(&answered)]);
        assert_eq!(sent, [(OUTSIDE, packet(Link::TO_CLIENT, VIP, client))], "round {round}");
        for mark in marks {
            let asked = HeapPacket::new(&asked).with_mark(Some(u32::from(mark)));
            let expected = packet(Link::to_backend(two), client, &server(two));
            let sent = world.burst_at(0, OUTSIDE, 0, vec![asked]);
            assert_eq!(sent, [(INSIDE, expected)], "round {round}, mark {mark}");
        }
    }
    assert_eq!(world.count(Counter::MatchedByQueue), 12);
}

/// A rule names the port, so a packet of another port is not the queue's: the card
/// has put it there by mistake, or the queue means something else since.
#[test]
fn a_queue_means_nothing_for_packets_of_another_port() {
    let mut world = World::new(&Plan::default());
    let client = CLIENTS[0];
    let (one, [there, back]) = open(&mut world, client);
    for (port, action) in [(OUTSIDE, there), (INSIDE, back)] {
        assert!(world.shared.port(port).unwrap().queues.set(3, Some(action)));
    }
    let asked = packet(Link::CLIENT, client, "10.9.0.1:81");
    let answered = packet(Link::from_backend(one), &format!("10.1.0.1{one}:8081"), client);
    for (port, other, frame) in [(OUTSIDE, INSIDE, asked), (INSIDE, OUTSIDE, answered)] {
        let stale = world.count(Counter::QueueStale);
        let sent = world.burst_at(0, port, 3, vec![HeapPacket::new(&frame)]);
        assert!(sent.iter().all(|(to, _)| *to != other), "{sent:?}");
        assert_eq!(world.count(Counter::QueueStale), stale + 1);
    }
    assert_eq!(world.count(Counter::MatchedByQueue), 0);
}
