//! A QUIC client that changes its address keeps its backend.
use state::Counter;

use crate::world::{INSIDE, Link, OUTSIDE, Plan, World, destination, source, udp};

const VIP: &str = "10.9.0.9:443";

/// A packet with a short header and the connection id of backend `n`.
fn short(n: u8) -> Vec<u8> {
    [&[0x41, 0x00, n, n][..], &[1, 2, 3, 4, 5, 6, 7, 8, 9]].concat()
}

fn send(world: &mut World, client: &str, payload: &[u8]) -> Option<String> {
    let (_, sent) = world.one(OUTSIDE, &udp(Link::CLIENT, client, VIP, payload))?;
    Some(destination(&sent).ip().to_string())
}

#[test]
fn a_client_that_moves_keeps_its_backend() {
    for n in [1, 2] {
        let mut world = World::new(&Plan::default());
        let backend = format!("10.1.0.1{n}");
        for move_ in 0..20 {
            let client = format!("9.9.9.{}:{}", 1 + move_ % 3, 5000 + move_);
            assert_eq!(send(&mut world, &client, &short(n)), Some(backend.clone()));
            // The new 5-tuple is a connection: answers come from the VIP, and packets
            // whose connection id names nobody stay.
            let server = format!("{backend}:443");
            let answer = udp(Link::from_backend(n), &server, &client, b"answer");
            let (_, back) = world.one(INSIDE, &answer).unwrap();
            assert_eq!(
                (source(&back).to_string(), destination(&back).to_string()),
                (VIP.to_owned(), client.clone())
            );
            assert_eq!(send(&mut world, &client, &[0x40; 30]), Some(backend.clone()));
        }
        assert_eq!(world.count(Counter::QuicNamed), 20);
        assert_eq!((world.count(Counter::Installed), world.shared.table().len()), (20, 20));
    }
}

#[test]
fn a_known_5_tuple_is_not_decoded() {
    let mut world = World::new(&Plan::default());
    assert_eq!(send(&mut world, "9.9.9.9:1", &short(1)).as_deref(), Some("10.1.0.11"));
    assert_eq!(send(&mut world, "9.9.9.9:1", &short(2)).as_deref(), Some("10.1.0.11"));
    assert_eq!(world.count(Counter::QuicNamed), 1);
}

#[test]
fn other_packets_are_scheduled() {
    // Initial packets, of which the client chose the connection id; unknown ids; no QUIC.
    let initial = [&[0xc0, 0, 0, 0, 1, 12, 0x00, 2, 2][..], &[0; 30]].concat();
    for payload in [&initial[..], &short(9), b"", b"q"] {
        let mut world = World::new(&Plan::default());
        let to: Vec<_> =
            (0..4).map(|n| send(&mut world, &format!("9.9.9.9:{n}1"), payload).unwrap()).collect();
        assert_eq!(to, ["10.1.0.11", "10.1.0.12", "10.1.0.11", "10.1.0.12"], "round robin");
        assert_eq!(world.count(Counter::QuicNamed), 0);
    }
}

#[test]
fn a_drained_backend_keeps_the_connections_that_name_it() {
    let mut world = World::new(&Plan { drained: true, ..Plan::default() });
    assert_eq!(send(&mut world, "9.9.9.9:1", &short(1)).as_deref(), Some("10.1.0.11"));
    assert_eq!(send(&mut world, "9.9.9.9:2", b"q").as_deref(), Some("10.1.0.12"));
}

#[test]
fn a_full_table_keeps_to_the_connection_id() {
    let mut world = World::new(&Plan { connections: 4, ..Plan::default() });
    for n in 0..60_u16 {
        let backend = 1 + (n % 2) as u8;
        let client = format!("9.9.9.9:{}", 1000 + n);
        assert_eq!(send(&mut world, &client, &short(backend)), Some(format!("10.1.0.1{backend}")));
    }
    assert!(world.count(Counter::Stateless) > 40);
}
