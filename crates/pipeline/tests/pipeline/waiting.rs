//! Packets that wait for their next hop's Ethernet address.
use std::collections::BTreeSet;

use flow::InterfaceId;
use proptest::prelude::*;
use state::Counter;
use wire::Mac;

use crate::world::{INSIDE, LB_OUT, Link, OUTSIDE, Plan, World, ip, tcp};

const VIP: &str = "10.9.0.1:80";

fn address(client: u8) -> String {
    format!("10.0.0.{}", 20 + client)
}

fn end(client: u8) -> String {
    format!("{}:5000", address(client))
}

const fn mac(client: u8) -> Mac {
    Mac([2, 0, 0, 0, 7, client])
}

/// What the answer numbered `number` carries.
fn payload(number: u32) -> [u8; 4] {
    number.to_be_bytes()
}

/// A world in which clients on the link have connections.
fn with_connections(clients: u8) -> World {
    let mut world = World::new(&Plan { connections: 256, ..Plan::default() });
    for client in 0..clients {
        assert!(world.one(OUTSIDE, &tcp(Link::CLIENT, &end(client), VIP, "S", b"")).is_some());
    }
    world
}

/// The backend's answer to a client.
fn answer(world: &mut World, client: u8, number: u32) -> Vec<(flow::PortId, Vec<u8>)> {
    let n = 1 + client % 2;
    let backend = format!("10.1.0.1{n}:8080");
    let frame = tcp(Link::from_backend(n), &backend, &end(client), "A", &payload(number));
    world.one(INSIDE, &frame).into_iter().collect()
}

fn learn(world: &World, client: u8) {
    world.shared.neighbours().learn(InterfaceId(0), ip(&address(client)), mac(client), 5);
}

/// What leaves for `client`: the answer with that number.
fn wanted(client: u8, number: u32) -> (flow::PortId, Vec<u8>) {
    let link = Link::new(LB_OUT, mac(client), 63);
    (OUTSIDE, tcp(link, VIP, &end(client), "A", &payload(number)))
}

#[derive(Clone, Debug)]
enum Step {
    Answer(u8),
    Learn(u8),
    /// Milliseconds until the next tick.
    Tick(u64),
}

fn steps(clients: u8) -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        12 => (0..clients).prop_map(Step::Answer),
        1 => (0..clients).prop_map(Step::Learn),
        2 => prop_oneof![4 => 0..5u64, 1 => 300..1200u64].prop_map(Step::Tick),
    ];
    prop::collection::vec(step, 1..250)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    /// At most 3 packets to a station and 64 in all wait, for less than a second; the last
    /// ones, in the order in which they came.
    #[test]
    fn the_last_packets_leave_when_the_address_is_known(steps in steps(40)) {
        let mut world = with_connections(40);
        let mut waiting: Vec<(u8, u32, u64)> = Vec::new();
        let (mut known, mut dropped) = (BTreeSet::new(), 0);
        for (number, step) in (0..).zip(steps) {
            match step {
                Step::Answer(client) => {
                    let sent = answer(&mut world, client, number);
                    if known.contains(&client) {
                        prop_assert_eq!(sent, [wanted(client, number)]);
                        continue;
                    }
                    prop_assert_eq!(sent, []);
                    waiting.push((client, number, world.now_ms));
                    let own = waiting.iter().filter(|one| one.0 == client).count();
                    let leaves = match own {
                        4.. => waiting.iter().position(|one| one.0 == client),
                        _ => (waiting.len() > 64).then_some(0),
                    };
                    if let Some(place) = leaves {
                        waiting.remove(place);
                        dropped += 1;
                    }
                }
                Step::Learn(client) => {
                    learn(&world, client);
                    known.insert(client);
                }
                Step::Tick(ms) => {
                    world.now_ms += ms;
                    world.tick();
                    let now = world.now_ms;
                    let late = |one: &(u8, u32, u64)| now - one.2 >= 1000;
                    dropped += waiting.iter().filter(|one| late(one)).count();
                    let leave = waiting.iter().filter(|one| !late(one) && known.contains(&one.0));
                    let leave: Vec<_> = leave.map(|one| wanted(one.0, one.1)).collect();
                    prop_assert_eq!(std::mem::take(&mut world.out.sent), leave);
                    waiting.retain(|one| !late(one) && !known.contains(&one.0));
                }
            }
            prop_assert_eq!(world.count(Counter::NeighbourHeld), waiting.len() as u64);
            prop_assert_eq!(world.count(Counter::NeighbourUnresolved), dropped as u64);
        }
    }
}

/// A client's handshake takes no second: neither the first SYN to a backend is lost nor
/// its answer.
#[test]
fn a_handshake_between_strangers_is_held_up_only_by_the_questions() {
    let mut world = World::new(&Plan { known_backends: false, ..Plan::default() });
    let client = end(1);
    assert_eq!(world.one(OUTSIDE, &tcp(Link::CLIENT, &client, VIP, "S", b"")), None);
    let backend = crate::world::backend_mac(1);
    world.shared.neighbours().learn(InterfaceId(1), ip("10.1.0.11"), backend, 5);
    world.tick();
    let syn = tcp(Link::to_backend(1), &client, "10.1.0.11:8080", "S", b"");
    assert_eq!(std::mem::take(&mut world.out.sent), [(INSIDE, syn)]);
    assert_eq!(answer(&mut world, 0, 7), [], "no connection of another client");
    let synack = tcp(Link::from_backend(1), "10.1.0.11:8080", &client, "SA", b"");
    assert_eq!(world.one(INSIDE, &synack), None);
    learn(&world, 1);
    world.tick();
    let left = tcp(Link::new(LB_OUT, mac(1), 63), VIP, &client, "SA", b"");
    assert_eq!(std::mem::take(&mut world.out.sent), [(OUTSIDE, left)]);
    assert_eq!(world.count(Counter::NeighbourHeld), 1, "the answer to the other client");
}
