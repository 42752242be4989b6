//! TCP and UDP, both families, all modes.
use std::sync::Arc;

use service::{Binding, Forwarding};
use state::{Counter, Offload};

use crate::world::{
    INSIDE, Link, OUTSIDE, Plan, World, at, backend_mac, destination, snapshot, source, tcp,
    tcp_checksum_is_right, udp,
};

/// The pairs client, VIP, backend, by name of protocol and family.
const CASES: &[(&str, &str, &str, bool)] = &[
    ("9.9.9.9:5000", "10.9.0.1:80", "10.1.0.11:8080", true),
    ("9.9.9.9:5000", "10.9.0.1:53", "10.1.0.11:5353", false),
    ("[2001:db8::9]:5000", "[fd09::1]:80", "[fd01::11]:8080", true),
    ("[2001:db8::9]:5000", "[fd09::1]:53", "[fd01::11]:5353", false),
];

fn packet(link: Link, src: &str, dst: &str, is_tcp: bool, flags: &str) -> Vec<u8> {
    if is_tcp {
        tcp(link, src, dst, flags, b"hello, odd length")
    } else {
        udp(link, src, dst, b"hello, odd length")
    }
}

#[test]
fn packets_go_there_and_back() {
    for &(client, vip, server, is_tcp) in CASES {
        let mut world = World::new(&Plan::default());
        for flags in ["S", "A", "PA"] {
            let sent = world.one(OUTSIDE, &packet(Link::CLIENT, client, vip, is_tcp, flags));
            let wanted = packet(Link::to_backend(1), client, server, is_tcp, flags);
            assert_eq!(sent, Some((INSIDE, wanted)), "{vip} {flags}");
            let answer = packet(Link::from_backend(1), server, client, is_tcp, "SA");
            let wanted = packet(Link::TO_CLIENT, vip, client, is_tcp, "SA");
            assert_eq!(world.one(INSIDE, &answer), Some((OUTSIDE, wanted)), "{vip} {flags}");
        }
        assert_eq!(world.count(Counter::Installed), 1);
        assert_eq!(world.count(Counter::Missed), 1);
        assert_eq!(world.count(Counter::LookedUp), 5);
    }
}

#[test]
fn tags_are_pushed_popped_and_exchanged() {
    let (client, vip, server) = ("9.9.9.9:5000", "10.9.0.1:80", "10.1.0.11:8080");
    for vlans in [[Some(5), None], [None, Some(6)], [Some(5), Some(6)]] {
        let mut world = World::new(&Plan { vlans, ..Plan::default() });
        let tagged = |link: Link, vlan: Option<u16>| vlan.map_or(link, |id| link.vlan(id));
        let there = tcp(tagged(Link::CLIENT, vlans[0]), client, vip, "S", b"x");
        let wanted = tcp(tagged(Link::to_backend(1), vlans[1]), client, server, "S", b"x");
        assert_eq!(world.one(OUTSIDE, &there), Some((INSIDE, wanted)));
        let back = tcp(tagged(Link::from_backend(1), vlans[1]), server, client, "SA", b"");
        let wanted = tcp(tagged(Link::TO_CLIENT, vlans[0]), vip, client, "SA", b"");
        assert_eq!(world.one(INSIDE, &back), Some((OUTSIDE, wanted)));
        let other = tcp(Link::CLIENT.vlan(9), client, vip, "S", b"x");
        world.drops(OUTSIDE, &other, Counter::WrongVlan);
    }
}

#[test]
fn any_port_keeps_the_port() {
    let mut world = World::new(&Plan::default());
    for port in [22, 443] {
        let (vip, server) = (format!("10.9.0.2:{port}"), format!("10.1.0.13:{port}"));
        let client = "9.9.9.9:5000";
        let sent = world.one(OUTSIDE, &tcp(Link::CLIENT, client, &vip, "S", b""));
        assert_eq!(sent, Some((INSIDE, tcp(Link::to_backend(3), client, &server, "S", b""))));
        let sent = world.one(INSIDE, &tcp(Link::from_backend(3), &server, client, "SA", b""));
        assert_eq!(sent, Some((OUTSIDE, tcp(Link::TO_CLIENT, &vip, client, "SA", b""))));
    }
}

#[test]
fn fullnat_rewrites_both_ends() {
    for (client, vip, servers, local_ip) in [
        ("9.9.9.9:5000", "10.9.0.3:80", ["10.1.0.11:8081", "10.1.0.12:8081"], "10.1.0.100"),
        ("[2001:db8::9]:5000", "[fd09::3]:80", ["[fd01::11]:8081"; 2], "fd01::100"),
    ] {
        let mut world = World::new(&Plan::default());
        let (_, sent) = world.one(OUTSIDE, &tcp(Link::CLIENT, client, vip, "S", b"q")).unwrap();
        let local = source(&sent);
        assert_eq!(local.ip().to_string(), local_ip);
        assert!((40_000..40_004).contains(&local.port()));
        let server = destination(&sent).to_string();
        assert!(servers.contains(&server.as_str()));
        let n = sent[5];
        let local = local.to_string();
        assert_eq!(sent, tcp(Link::to_backend(n), &local, &server, "S", b"q"));
        let sent = world.one(INSIDE, &tcp(Link::from_backend(n), &server, &local, "SA", b""));
        assert_eq!(sent, Some((OUTSIDE, tcp(Link::TO_CLIENT, vip, client, "SA", b""))));
    }
}

#[test]
fn an_exhausted_pool_is_a_drop_of_its_own() {
    let mut world = World::new(&Plan { pool_ports: 1, ..Plan::default() });
    // Two backends, one local endpoint each.
    let mut passed = 0;
    for port in 5000..5010 {
        let frame = tcp(Link::CLIENT, &format!("9.9.9.9:{port}"), "10.9.0.3:80", "S", b"");
        passed += usize::from(world.one(OUTSIDE, &frame).is_some());
    }
    assert_eq!(passed, 2);
    assert_eq!(world.count(Counter::PoolExhausted), 8);
}

#[test]
fn a_full_table_serves_without_state_and_stays_with_one_backend() {
    let plan = Plan { connections: 4, ..Plan::default() };
    let mut world = World::new(&plan);
    let client = |n: u16| format!("9.9.9.9:{}", 1000 + n);
    let mut stateless = Vec::new();
    for n in 0..40 {
        let frame = tcp(Link::CLIENT, &client(n), "10.9.0.1:80", "S", b"");
        let before = world.count(Counter::Stateless);
        let (port, sent) = world.one(OUTSIDE, &frame).unwrap();
        assert_eq!(port, INSIDE);
        if world.count(Counter::Stateless) > before {
            stateless.push((n, destination(&sent)));
        }
    }
    assert!(stateless.len() >= 30);
    assert!(stateless.iter().any(|(_, server)| *server != stateless[0].1), "only one backend");
    for &(n, server) in &stateless {
        let frame = tcp(Link::CLIENT, &client(n), "10.9.0.1:80", "A", b"more");
        let (_, sent) = world.one(OUTSIDE, &frame).unwrap();
        assert_eq!(destination(&sent), server);
        let m = sent[5];
        let back = tcp(Link::from_backend(m), &server.to_string(), &client(n), "A", b"");
        let wanted = tcp(Link::TO_CLIENT, "10.9.0.1:80", &client(n), "A", b"");
        assert_eq!(world.one(INSIDE, &back), Some((OUTSIDE, wanted)));
    }
    assert_eq!(world.count(Counter::StatelessReply), stateless.len() as u64);
    let frame = tcp(Link::CLIENT, "9.9.9.9:7", "10.9.0.3:80", "S", b"");
    world.drops(OUTSIDE, &frame, Counter::TableFull);
}

#[test]
fn udp_flows_stay_where_they_were_served_while_the_table_was_full() {
    let mut world = World::new(&Plan { connections: 4, ..Plan::default() });
    let frame = |n: u16| udp(Link::CLIENT, &format!("9.9.9.9:{}", 1000 + n), "10.9.0.1:53", b"q");
    let server = |world: &mut World, n| destination(&world.one(OUTSIDE, &frame(n)).unwrap().1);
    let first: Vec<_> = (0..40).map(|n| server(&mut world, n)).collect();
    // Room again: the connections in the table are removed.
    let mut all = Vec::new();
    world.shared.table().iter(world.now_ms, &mut |conn, _| all.push(conn));
    for &conn in &all {
        world.shared.table().remove(conn);
    }
    for _ in 0..4 {
        world.workers[0].begin();
        world.shared.table().reclaim();
    }
    let installed = world.count(Counter::Installed);
    for n in all.len() as u16..40 {
        assert_eq!(server(&mut world, n), first[usize::from(n)], "flow {n} moved");
    }
    assert!(world.count(Counter::Installed) > installed);
}

#[test]
fn answers_without_state_go_back_through_the_only_service_that_claims_them() {
    let mut world = World::new(&Plan::default());
    let client = "9.9.9.9:5000";
    for n in [1, 2] {
        let server = format!("10.1.0.1{n}:8080");
        let answer = tcp(Link::from_backend(n), &server, client, "A", b"late");
        let wanted = tcp(Link::TO_CLIENT, "10.9.0.1:80", client, "A", b"late");
        assert_eq!(world.one(INSIDE, &answer), Some((OUTSIDE, wanted)));
    }
    assert_eq!(world.count(Counter::StatelessReply), 2);
    // Of the two backends' connections only one can be the client's.
    assert_eq!((world.shared.table().len(), world.count(Counter::TakenUp)), (1, 1));
}

#[test]
fn midway_packets_follow_maglev_and_leave_no_trace() {
    let plan = Plan { connections: 4, ..Plan::default() };
    let (mut fresh, mut full) = (World::new(&Plan::default()), World::new(&plan));
    let fill = |n: u16| tcp(Link::CLIENT, &format!("9.9.9.8:{n}"), "10.9.0.1:80", "S", b"");
    (0..20).for_each(|n| drop(full.one(OUTSIDE, &fill(1000 + n))));
    for n in 1000..1040 {
        let client = format!("9.9.9.9:{n}");
        let frame = tcp(Link::CLIENT, &client, "10.9.0.1:80", "A", b"");
        let sent = fresh.one(OUTSIDE, &frame).unwrap();
        assert_eq!(Some(sent), full.one(OUTSIDE, &frame), "with room as without");
    }
    assert_eq!((fresh.count(Counter::Installed), fresh.count(Counter::Stateless)), (0, 40));
}

#[test]
fn answers_of_no_service_are_dropped() {
    let mut world = World::new(&Plan::default());
    // Of mode `fullnat`: an answer without a connection doesn't say which client's it is.
    let full = tcp(Link::from_backend(1), "10.1.0.11:8081", "9.9.9.9:5000", "A", b"");
    world.drops(INSIDE, &full, Counter::BackendUnclaimed);
    let elsewhere = tcp(Link::from_backend(1), "10.1.0.11:12345", "9.9.9.9:80", "S", b"");
    world.drops(INSIDE, &elsewhere, Counter::NotForUs);
    let opening = tcp(Link::from_backend(3), "10.1.0.13:12345", "9.9.9.9:80", "S", b"");
    world.drops(INSIDE, &opening, Counter::NotForUs);
    let no_service = tcp(Link::CLIENT, "9.9.9.9:5000", "10.9.0.1:81", "S", b"");
    world.drops(OUTSIDE, &no_service, Counter::ClosedPort);
}

/// Answers without a connection to an address of ours would come back to us.
#[test]
fn answers_without_a_connection_to_our_own_addresses_are_dropped() {
    let mut world = World::new(&Plan::default());
    for own in ["10.1.0.100:40000", "10.0.0.1:9", "10.1.0.1:9"] {
        for server in ["10.1.0.11:8080", "10.1.0.13:7000", "10.9.0.6:80", "10.9.0.7:80"] {
            let answer = tcp(Link::from_backend(1), server, own, "A", b"");
            world.drops(INSIDE, &answer, Counter::BackendUnclaimed);
        }
    }
    for (server, own) in [("[fd01::11]:8080", "[fd01::100]:40000"), ("[fd09::7]:80", "[fd00::1]:9")]
    {
        let answer = tcp(Link::from_backend(1), server, own, "A", b"");
        world.drops(INSIDE, &answer, Counter::BackendUnclaimed);
    }
    assert_eq!(world.count(Counter::ForwardedPackets), 0);
}

#[test]
fn the_same_client_port_to_two_vips_of_one_backend_takes_another_backend() {
    // Services "twin" and "twin2" share their only backend: no way out.
    let mut world = World::new(&Plan::default());
    let first = tcp(Link::CLIENT, "9.9.9.9:5000", "10.9.0.4:80", "S", b"");
    let second = tcp(Link::CLIENT, "9.9.9.9:5000", "10.9.0.5:80", "S", b"");
    assert!(world.one(OUTSIDE, &first).is_some());
    world.drops(OUTSIDE, &second, Counter::ReplyConflict);
}

/// The other backend is no way out of a conflict if it takes no new connections.
#[test]
fn a_conflict_gives_a_drained_backend_nothing() {
    for drained in [false, true] {
        let mut world = World::new(&Plan { drained, ..Plan::default() });
        let (client, server) = (at("9.9.9.9:5000"), at("10.1.0.12:8080"));
        let other = Binding {
            proto: wire::Transport::Tcp,
            service: flow::ServiceId(9),
            backend: flow::BackendId(99),
            forwarding: Forwarding::Rewrite,
            client,
            vip: at("10.9.0.99:80"),
            server,
            local: client,
        };
        world.shared.table().insert(&other, [flow::HopId(0); 2], world.now_ms).unwrap();
        // By turns: the first goes to the first backend, if that takes any.
        let syn = |client: &str| tcp(Link::CLIENT, client, "10.9.0.1:80", "S", b"");
        world.one(OUTSIDE, &syn("9.9.9.9:4999")).unwrap();
        if drained {
            world.drops(OUTSIDE, &syn("9.9.9.9:5000"), Counter::ReplyConflict);
        } else {
            let (_, sent) = world.one(OUTSIDE, &syn("9.9.9.9:5000")).unwrap();
            assert_eq!(destination(&sent), at("10.1.0.11:8080"));
        }
    }
}

/// faults.md P7: the client's port is used again, for the other VIP.
#[test]
fn a_new_connection_takes_the_place_of_an_ended_one_of_another_vip() {
    let (client, server) = ("9.9.9.9:5000", "10.1.0.14:8080");
    for (from_client, from_server) in [("FA", "FA"), ("", "R")] {
        let mut world = World::new(&Plan::default());
        let sends = |vip, flags| tcp(Link::CLIENT, client, vip, flags, b"");
        let answers = |flags| tcp(Link::from_backend(4), server, client, flags, b"");
        let (one, other) = ("10.9.0.4:80", "10.9.0.5:80");
        assert!(world.one(OUTSIDE, &sends(one, "S")).is_some());
        assert!(world.one(INSIDE, &answers("SA")).is_some());
        assert!(world.one(OUTSIDE, &sends(one, "A")).is_some());
        world.drops(OUTSIDE, &sends(other, "S"), Counter::ReplyConflict);
        if !from_client.is_empty() {
            assert!(world.one(OUTSIDE, &sends(one, from_client)).is_some());
        }
        assert!(world.one(INSIDE, &answers(from_server)).is_some());
        let (_, sent) = world.one(OUTSIDE, &sends(other, "S")).unwrap();
        assert_eq!(destination(&sent).to_string(), server);
        assert_eq!(world.count(Counter::TakenOver), 1);
        let (_, back) = world.one(INSIDE, &answers("SA")).unwrap();
        assert_eq!(source(&back).to_string(), other);
        let backend = world
            .shared
            .snapshot()
            .services
            .by_backend(wire::Transport::Tcp, server.parse().unwrap())[1];
        assert_eq!(world.shared.loads().connections(backend.1), 1);
        assert_eq!(world.shared.table().len(), 1);
    }
}

/// A connection that has ended but has rules in the NIC keeps its place until they
/// are withdrawn, and the offload side is told.
#[test]
fn a_connection_with_rules_does_not_make_way() {
    let mut world = World::new(&Plan::default());
    let client = "9.9.9.9:5000";
    let answers = |flags| tcp(Link::from_backend(4), "10.1.0.14:8080", client, flags, b"");
    let sends = |vip, flags| tcp(Link::CLIENT, client, vip, flags, b"");
    assert!(world.one(OUTSIDE, &sends("10.9.0.4:80", "S")).is_some());
    assert!(world.one(INSIDE, &answers("SA")).is_some());
    assert!(world.one(OUTSIDE, &sends("10.9.0.4:80", "A")).is_some());
    let mut conns = Vec::new();
    world.shared.table().iter(world.now_ms, &mut |conn, _| conns.push(conn));
    let (from, to) = (conntrack::OffloadState::None, conntrack::OffloadState::Installed);
    assert!(world.shared.table().change_offload(conns[0], from, to));
    assert!(world.one(OUTSIDE, &sends("10.9.0.4:80", "FA")).is_some());
    assert!(world.one(INSIDE, &answers("FA")).is_some());
    let told = world.out.offload.len();
    world.drops(OUTSIDE, &sends("10.9.0.5:80", "S"), Counter::ReplyConflict);
    assert!(world.shared.table().is_live(conns[0]));
    assert!(world.out.offload.len() > told, "the offload side was not told");
}

/// faults.md O2: with the table full, services that share a backend at one address
/// and port serve as far as their answers can be told apart.
#[test]
fn services_that_share_a_backend_are_served_without_state() {
    let plan = Plan { connections: 4, ..Plan::default() };
    let mut world = World::new(&plan);
    let fill = |n: u16| tcp(Link::CLIENT, &format!("9.9.9.8:{n}"), "10.9.0.1:80", "S", b"");
    (0..20).for_each(|n| drop(world.one(OUTSIDE, &fill(1000 + n))));
    for n in 0..40 {
        let client = format!("9.9.9.9:{}", 1000 + n);
        let first = tcp(Link::CLIENT, &client, "10.9.0.4:80", "S", b"");
        assert!(world.one(OUTSIDE, &first).is_some());
        let answer = tcp(Link::from_backend(4), "10.1.0.14:8080", &client, "SA", b"");
        let wanted = tcp(Link::TO_CLIENT, "10.9.0.4:80", &client, "SA", b"");
        assert_eq!(world.one(INSIDE, &answer), Some((OUTSIDE, wanted)));
        // There is no other backend for this one, whose answers would look the same.
        let second = tcp(Link::CLIENT, &client, "10.9.0.5:80", "S", b"");
        world.drops(OUTSIDE, &second, Counter::BackendShared);
    }
}

#[test]
fn impossible_sources_open_nothing() {
    let mut world = World::new(&Plan::default());
    for client in ["0.0.0.0:5", "127.0.0.1:5", "224.0.0.1:5", "255.255.255.255:5", "10.9.0.2:80"] {
        let frame = tcp(Link::CLIENT, client, "10.9.0.1:80", "S", b"");
        world.drops(OUTSIDE, &frame, Counter::BadSource);
    }
    assert!(world.shared.table().is_empty());
}

#[test]
fn a_closed_connection_opens_again_and_the_offload_side_hears_of_it() {
    let plan = Plan { admit: flow::AdmissionPolicy::All, ..Plan::default() };
    let mut world = World::new(&plan);
    let (client, vip, server) = ("9.9.9.9:5000", "10.9.0.1:80", "10.1.0.11:8080");
    let there = |world: &mut World, flags| {
        world.one(OUTSIDE, &tcp(Link::CLIENT, client, vip, flags, b"")).unwrap()
    };
    let back = |world: &mut World, flags| {
        world.one(INSIDE, &tcp(Link::from_backend(1), server, client, flags, b"")).unwrap()
    };
    there(&mut world, "S");
    back(&mut world, "SA");
    assert!(world.out.offload.is_empty());
    there(&mut world, "A");
    let (conn, reason) = world.out.offload.pop().unwrap();
    assert_eq!(reason, Offload::Wanted);
    there(&mut world, "FA");
    back(&mut world, "FA");
    assert_eq!(world.out.offload, [(conn, Offload::Closing)]);
    there(&mut world, "S");
    assert_eq!(world.out.offload[1..], [(conn, Offload::Reopened)]);
    back(&mut world, "R");
    assert_eq!(world.out.offload[2..], [(conn, Offload::Closing)]);
    assert_eq!(world.count(Counter::Reopened), 1);
    assert_eq!(world.shared.table().len(), 1);
}

#[test]
fn where_the_offload_side_chooses_workers_only_tell_of_samples_of_established_connections() {
    let plan = Plan { admit: flow::AdmissionPolicy::Heavy, ..Plan::default() };
    let mut world = World::new(&plan);
    let (client, vip, server) = ("9.9.9.9:5000", "10.9.0.1:80", "10.1.0.11:8080");
    let there = |world: &mut World, flags| {
        world.one(OUTSIDE, &tcp(Link::CLIENT, client, vip, flags, b"")).unwrap();
    };
    (0..1000).for_each(|_| there(&mut world, "S"));
    assert!(world.out.offload.is_empty(), "a flood of SYNs is nothing to tell of");
    world.one(INSIDE, &tcp(Link::from_backend(1), server, client, "SA", b"")).unwrap();
    (0..6400).for_each(|_| there(&mut world, "A"));
    let told = world.out.offload.len();
    assert!((80..120).contains(&told), "one in 64 of 6400, not {told}");
    assert!(world.out.offload.iter().all(|(_, reason)| *reason == Offload::Seen(64)));
    let (conn, _) = world.out.offload[0];
    assert_eq!(world.shared.table().offloaded(conn), Some(conntrack::OffloadState::None));
}

#[test]
fn a_full_ring_is_tried_again_at_a_later_packet() {
    let plan = Plan { admit: flow::AdmissionPolicy::FirstPacket, ..Plan::default() };
    let mut world = World::new(&plan);
    world.out.ring_full = true;
    let frame = |flags| tcp(Link::CLIENT, "9.9.9.9:5000", "10.9.0.1:80", flags, b"");
    world.one(OUTSIDE, &frame("S"));
    assert_eq!(world.count(Counter::OffloadRingFull), 1);
    world.out.ring_full = false;
    (0..300).for_each(|_| drop(world.one(OUTSIDE, &frame("A"))));
    assert_eq!(world.out.offload.len(), 1, "asked once, and not again");
}

#[test]
fn a_burst_of_one_new_flow_makes_one_connection() {
    let mut world = World::new(&Plan::default());
    let frames = ["S", "A", "PA", "A"].map(|flags| {
        packet::HeapPacket::new(&tcp(Link::CLIENT, "9.9.9.9:5000", "10.9.0.1:80", flags, b"x"))
    });
    let sent = world.burst(OUTSIDE, frames.to_vec());
    assert_eq!(sent.len(), 4);
    assert!(sent.iter().all(|(_, frame)| frame[..6] == backend_mac(1).0));
    assert!(sent.iter().all(|(_, frame)| tcp_checksum_is_right(frame)));
    assert_eq!(world.count(Counter::Installed), 1);
}

#[test]
fn a_new_configuration_moves_no_connection() {
    let mut world = World::new(&Plan::default());
    let send = |world: &mut World, client: &str, flags| {
        let frame = tcp(Link::CLIENT, client, "10.9.0.1:80", flags, b"");
        destination(&world.one(OUTSIDE, &frame).unwrap().1).to_string()
    };
    assert_eq!(send(&mut world, "9.9.9.9:1", "S"), "10.1.0.11:8080");
    let drained = snapshot(&Plan { drained: true, ..Plan::default() });
    world.shared.publish(Arc::new(drained));
    for n in 2..6 {
        assert_eq!(send(&mut world, &format!("9.9.9.9:{n}"), "S"), "10.1.0.12:8080");
    }
    assert_eq!(send(&mut world, "9.9.9.9:1", "A"), "10.1.0.11:8080");
    let any = tcp(Link::CLIENT, "9.9.9.9:1", "10.9.0.2:22", "S", b"");
    world.drops(OUTSIDE, &any, Counter::NoBackend);
}

#[test]
fn an_answered_udp_flow_is_offered_to_the_nic() {
    let plan = Plan { admit: flow::AdmissionPolicy::All, ..Plan::default() };
    let mut world = World::new(&plan);
    let (client, vip, server) = ("9.9.9.9:5000", "10.9.0.1:53", "10.1.0.11:5353");
    world.one(OUTSIDE, &udp(Link::CLIENT, client, vip, b"q"));
    world.one(OUTSIDE, &udp(Link::CLIENT, client, vip, b"q"));
    assert!(world.out.offload.is_empty());
    world.one(INSIDE, &udp(Link::from_backend(1), server, client, b"a"));
    let reasons: Vec<_> = world.out.offload.iter().map(|(_, reason)| *reason).collect();
    assert_eq!(reasons, [Offload::Wanted]);
}
