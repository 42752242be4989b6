//! No service and no source takes what the others need.
use conntrack::{ConnState, EmbryonicLimits};
use flow::Direction;
use packet::HeapPacket;
use proptest::prelude::*;
use state::Counter;

use crate::world::{INSIDE, Link, OUTSIDE, Plan, World, at, destination, tcp, udp};

const WEB: &str = "10.9.0.1:80";
const FULL: &str = "10.9.0.3:80";

/// A world with a table for 1000, limits as by default and pools that suffice.
fn world(connections: usize) -> World {
    let world = World::new(&Plan { connections, pool_ports: 2000, ..Plan::default() });
    let limits = EmbryonicLimits { service_percent: 100, source_percent: 25 };
    world.shared.table().set_embryonic_limits(limits);
    walk(&world);
    world
}

/// A round of the keeper's walk; what has expired is removed.
fn walk(world: &World) {
    let table = world.shared.table();
    table.sweep(world.now_ms, 1 << 20, &mut |conn, expiry| {
        if expiry.is_over {
            table.remove(conn);
        }
    });
    table.reclaim();
}

/// Packets of `clients`, each from a /24 of its own; how many were sent on.
fn send(world: &mut World, clients: std::ops::Range<u32>, to: &str, flags: &str) -> usize {
    let clients: Vec<u32> = clients.collect();
    let mut sent = 0;
    for some in clients.chunks(32) {
        let frame = |n: &u32| {
            let client = format!("11.{}.{}.9:5000", n >> 8, n & 255);
            HeapPacket::new(&tcp(Link::CLIENT, &client, to, flags, b""))
        };
        sent += world.burst(OUTSIDE, some.iter().map(frame).collect()).len();
        walk(world);
    }
    sent
}

#[test]
fn lone_segments_of_one_service_leave_the_table_to_others() {
    let mut world = world(1000);
    assert_eq!(send(&mut world, 0..1100, WEB, "A"), 1100);
    assert_eq!(world.count(Counter::Stateless), 1100);
    assert!(world.shared.table().is_empty());
    assert_eq!(send(&mut world, 5000..5100, FULL, "S"), 100);
}

#[test]
fn a_syn_flood_of_one_service_leaves_room_for_others() {
    let mut world = world(1000);
    // What the table doesn't take is served by Maglev.
    assert_eq!(send(&mut world, 0..2000, WEB, "S"), 2000);
    let open = world.shared.table().len();
    assert!((490..=540).contains(&open), "{open} of 1000");
    assert_eq!(world.count(Counter::EmbryonicService), world.count(Counter::Stateless));
    assert_eq!(send(&mut world, 5000..5100, FULL, "S"), 100);
    // Also the other way round: those of mode fullnat are dropped and named.
    let before = world.shared.table().len();
    send(&mut world, 6000..7000, FULL, "S");
    assert!(world.shared.table().len() < before + 300);
    assert!(world.count(Counter::TableFull) > 700);
}

#[test]
fn one_network_takes_its_share_of_a_service_only() {
    let mut world = world(1000);
    for n in 0..800_u32 {
        let client = format!("7.7.7.{}:{}", n % 250 + 1, 1000 + n);
        assert!(world.one(OUTSIDE, &tcp(Link::CLIENT, &client, WEB, "S", b"")).is_some());
        walk(&world);
    }
    let open = world.shared.table().len();
    assert!((195..=210).contains(&open), "a fifth of the table: {open}");
    assert_eq!(world.count(Counter::EmbryonicSource), 800 - open as u64);
    assert_eq!(send(&mut world, 0..100, WEB, "S"), 100);
    assert_eq!(world.shared.table().len(), open + 100);
}

#[test]
fn established_connections_do_not_count_and_stay() {
    let mut world = world(1000);
    for n in 0..600_u32 {
        let client = format!("11.{}.{}.9:5000", n >> 8, n & 255);
        let (_, there) = world.one(OUTSIDE, &tcp(Link::CLIENT, &client, WEB, "S", b"")).unwrap();
        let server = destination(&there).to_string();
        let link = Link::from_backend(server.as_bytes()[8] - b'0');
        world.one(INSIDE, &tcp(link, &server, &client, "SA", b"")).unwrap();
        world.one(OUTSIDE, &tcp(Link::CLIENT, &client, WEB, "A", b"")).unwrap();
        walk(&world);
    }
    assert_eq!((world.shared.table().len(), world.count(Counter::Stateless)), (600, 0));
    // A flood takes half of what is left, and its connections end early: the
    // others stay for as long as ever.
    send(&mut world, 1000..3000, WEB, "S");
    assert!(world.shared.table().len() > 750);
    world.now_ms += 16_000;
    walk(&world);
    assert_eq!(world.shared.table().len(), 600);
}

#[test]
fn a_share_bounds_connections_of_all_states() {
    let mut world = world(1000);
    let id = |world: &World, vip: &str| {
        let client = wire::FlowKey::new(wire::Transport::Tcp, at("9.9.9.9:1"), at(vip)).unwrap();
        world.shared.snapshot().services.lookup(&client).unwrap().id()
    };
    let (web, full) = (id(&world, WEB), id(&world, FULL));
    world.shared.table().set_share(web, 100);
    assert_eq!(send(&mut world, 0..300, WEB, "S"), 300);
    assert_eq!(world.shared.table().len(), 100);
    assert_eq!(world.count(Counter::ShareUsed), 200);
    assert_eq!(send(&mut world, 400..600, FULL, "S"), 200);
    // Exact when nothing was inserted since the last round began.
    walk(&world);
    assert_eq!(world.shared.table().connections_of(full), [200, 200]);
}

/// A segment of a connection that the table doesn't know goes to the backend that
/// Maglev names; the backend's answer puts it into the table, with that backend.
#[test]
fn a_servers_answer_takes_a_connection_up() {
    let mut world = world(1000);
    let client = "9.9.9.9:5000";
    let (_, there) = world.one(OUTSIDE, &tcp(Link::CLIENT, client, WEB, "A", b"x")).unwrap();
    let server = destination(&there).to_string();
    let link = Link::from_backend(server.as_bytes()[8] - b'0');
    // Neither its reset nor its FIN does, nor a forged answer from outside.
    for flags in ["R", "RA", "FA", "SA"] {
        world.one(INSIDE, &tcp(link, &server, client, flags, b"")).unwrap();
    }
    world.drops(OUTSIDE, &tcp(Link::CLIENT, &server, client, "A", b""), Counter::WrongSide);
    assert!(world.shared.table().is_empty());
    let (_, back) = world.one(INSIDE, &tcp(link, &server, client, "PA", b"y")).unwrap();
    assert_eq!(destination(&back), at(client));
    let key = wire::FlowKey::new(wire::Transport::Tcp, at(client), at(WEB)).unwrap();
    let hit = world.shared.table().lookup(&key).unwrap();
    assert_eq!(hit.direction, Direction::Forward);
    assert_eq!(world.shared.table().state(hit.conn), Some(ConnState::Established));
    assert_eq!(world.shared.table().binding(hit.conn).unwrap().server, at(&server));
    assert_eq!((world.count(Counter::TakenUp), world.count(Counter::Installed)), (1, 1));
}

#[test]
fn an_exhausted_pool_is_not_searched_for_each_syn() {
    let mut world = World::new(&Plan { connections: 5000, pool_ports: 100, ..Plan::default() });
    // Two backends with 100 endpoints each, and 64 candidates a connection.
    send(&mut world, 0..300, FULL, "S");
    assert!(world.shared.table().len() > 190, "both backends' endpoints are used");
    let open = world.shared.table().len();
    let tried = world.count(Counter::PoolTried);
    assert_eq!(send(&mut world, 1000..2000, FULL, "S"), 200 - open);
    let more = world.count(Counter::PoolTried) - tried;
    assert!(more < 2 * 1000 + 4 * 64, "{more} endpoints tried for 1000 SYNs");
    assert!(world.count(Counter::PoolExhausted) >= 1000);
}

#[test]
fn another_backend_serves_when_the_pool_has_no_endpoint_for_one() {
    let mut world = World::new(&Plan { connections: 500, pool_ports: 20, ..Plan::default() });
    // All candidates are tried with so few: 20 endpoints for each backend.
    assert_eq!(send(&mut world, 0..40, FULL, "S"), 40);
    assert_eq!(world.count(Counter::PoolExhausted), 0);
    assert_eq!(send(&mut world, 100..110, FULL, "S"), 0);
    assert_eq!(world.count(Counter::PoolExhausted), 10);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    /// Two floods take a third of the table each, and of the last third another
    /// service has at least half.
    #[test]
    fn two_flooded_services_leave_room_for_a_third(
        floods in prop::collection::vec((any::<bool>(), 1_u32..60), 1..60),
    ) {
        let mut world = world(1000);
        for (n, (web, count)) in (0_u32..).zip(floods) {
            let to = if web { WEB } else { "10.9.0.2:81" };
            send(&mut world, n * 100..n * 100 + count, to, "S");
        }
        prop_assert_eq!(send(&mut world, 10_000..10_100, FULL, "S"), 100);
    }
}

#[test]
fn answered_flows_of_udp_are_not_embryonic() {
    let mut world = world(1000);
    for n in 0..700_u32 {
        let client = format!("11.{}.{}.9:5000", n >> 8, n & 255);
        let ask = udp(Link::CLIENT, &client, "10.9.0.1:53", b"?");
        let (_, there) = world.one(OUTSIDE, &ask).unwrap();
        let server = destination(&there).to_string();
        let link = Link::from_backend(server.as_bytes()[8] - b'0');
        world.one(INSIDE, &udp(link, &server, &client, b"!")).unwrap();
        walk(&world);
    }
    assert_eq!((world.shared.table().len(), world.count(Counter::Stateless)), (700, 0));
}
