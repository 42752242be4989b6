//! What ends a connection and what may begin one: SYN on known 5-tuples, RST and
//! FIN that may be forged, and packets from the wrong side.
use std::sync::Arc;

use conntrack::{ConnId, ConnState, OffloadState};
use flow::{Direction, Scheduler};
use packet::HeapPacket;
use state::{Counter, Offload, Snapshot};
use wire::{FlowKey, Headers};

use crate::world::{INSIDE, LB_IN, Link, OUTSIDE, Plan, World, destination, ip, source, tcp, udp};

const VIP: &str = "10.9.0.1:80";
const DSR: &str = "10.9.0.6:80";
const FIRST: &str = "10.1.0.11:8080";
const SECOND: &str = "10.1.0.12:8080";
const CLIENT: &str = "9.9.9.9:5000";

fn key(frame: &[u8]) -> FlowKey {
    Headers::parse(frame).unwrap().flow(frame).unwrap()
}

/// A client's packet; where it went.
fn client(world: &mut World, from: &str, to: &str, flags: &str) -> Option<String> {
    let sent = world.one(OUTSIDE, &tcp(Link::CLIENT, from, to, flags, b""))?;
    assert_eq!(sent.0, INSIDE);
    Some(destination(&sent.1).to_string())
}

fn server(world: &mut World, from: &str, to: &str, flags: &str) {
    let n = if from == FIRST { 1 } else { 2 };
    let (port, sent) =
        world.one(INSIDE, &tcp(Link::from_backend(n), from, to, flags, b"")).unwrap();
    assert_eq!((port, source(&sent).to_string()), (OUTSIDE, VIP.to_owned()));
}

/// Opens a connection from `from`; its backend.
fn open(world: &mut World, from: &str) -> String {
    let backend = client(world, from, VIP, "S").unwrap();
    server(world, &backend, from, "SA");
    assert_eq!(client(world, from, VIP, "A").as_ref(), Some(&backend));
    backend
}

fn close(world: &mut World, from: &str, backend: &str) {
    client(world, from, VIP, "FA");
    server(world, backend, from, "FA");
    client(world, from, VIP, "A");
}

fn conn(world: &World, from: &str, to: &str) -> ConnId {
    world.shared.table().lookup(&key(&tcp(Link::CLIENT, from, to, "A", b""))).unwrap().conn
}

fn state(world: &World, from: &str, to: &str) -> ConnState {
    world.shared.table().state(conn(world, from, to)).unwrap()
}

fn drain(world: &World, backend: &str) {
    let old = world.shared.snapshot();
    let backend = ip(backend.split(':').next().unwrap());
    let (services, _) = old.services.steer("web", backend, true).unwrap();
    world.shared.publish(Arc::new(Snapshot { services, ..Snapshot::clone(&old) }));
}

/// How many connections are due after `silence_ms`.
fn due(world: &World, silence_ms: u64) -> usize {
    let mut due = 0;
    world.shared.table().sweep(world.now_ms + silence_ms, usize::MAX, &mut |_, _| due += 1);
    due
}

#[test]
fn a_syn_of_an_ended_connection_is_scheduled_anew() {
    let mut world = World::new(&Plan::default());
    assert_eq!(open(&mut world, CLIENT), FIRST);
    close(&mut world, CLIENT, FIRST);
    assert_eq!(state(&world, CLIENT, VIP), ConnState::Closing);
    assert_eq!(open(&mut world, CLIENT), FIRST, "it may have rules in the NIC");
    close(&mut world, CLIENT, FIRST);
    world.now_ms += 1600;
    assert_eq!(open(&mut world, CLIENT), SECOND, "its turn");
    assert_eq!(world.count(Counter::Rescheduled), 1);
    let reset = world.one(INSIDE, &tcp(Link::from_backend(2), SECOND, CLIENT, "R", b""));
    assert!(reset.is_some());
    world.now_ms += 1600;
    assert_eq!(open(&mut world, CLIENT), FIRST);
    let active = |backend: &str| {
        let all = world.shared.snapshot();
        let is_it = |own: &&service::Backend| own.address == ip(backend) && own.port == Some(8080);
        world.shared.loads().connections(all.services.backends().iter().find(is_it).unwrap().id)
    };
    assert_eq!((active("10.1.0.11"), active("10.1.0.12")), (1, 0));
    assert_eq!(world.shared.table().len(), 1);
}

#[test]
fn a_scheduler_that_chooses_the_same_backend_keeps_the_connection() {
    let mut world = World::new(&Plan { scheduler: Scheduler::Maglev, ..Plan::default() });
    let backend = open(&mut world, CLIENT);
    let before = conn(&world, CLIENT, VIP);
    close(&mut world, CLIENT, &backend);
    world.now_ms += 1600;
    assert_eq!(open(&mut world, CLIENT), backend);
    assert_eq!(conn(&world, CLIENT, VIP), before);
    assert_eq!((world.count(Counter::Rescheduled), world.count(Counter::Reopened)), (0, 1));
}

#[test]
fn a_drained_backend_gets_no_new_connection_in_any_state() {
    for scheduler in [Scheduler::RoundRobin, Scheduler::Maglev, Scheduler::LeastConnections] {
        for flags in ["", "SA", "F", "R"] {
            let mut world = World::new(&Plan { scheduler, ..Plan::default() });
            let backend = client(&mut world, CLIENT, VIP, "S").unwrap();
            if !flags.is_empty() {
                server(&mut world, &backend, CLIENT, "SA");
                client(&mut world, CLIENT, VIP, "A");
            }
            match flags {
                "F" => close(&mut world, CLIENT, &backend),
                "R" => server(&mut world, &backend, CLIENT, "R"),
                _ => {}
            }
            drain(&world, &backend);
            if matches!(flags, "" | "SA") {
                // The SYN may be one that its client has sent again.
                assert_eq!(client(&mut world, CLIENT, VIP, "S").as_ref(), Some(&backend));
                world.now_ms += 1400;
                assert_eq!(client(&mut world, CLIENT, VIP, "S").as_ref(), Some(&backend));
                world.now_ms += 1600;
            }
            let other = if backend == FIRST { SECOND } else { FIRST };
            assert_eq!(open(&mut world, CLIENT), other, "{scheduler:?} after {flags:?}");
            assert_eq!(world.count(Counter::Rescheduled), 1);
            for _ in 0..20 {
                close(&mut world, CLIENT, other);
                assert_eq!(open(&mut world, CLIENT), other);
            }
            drain(&world, other);
            world.now_ms += 1600;
            let syn = tcp(Link::CLIENT, CLIENT, VIP, "S", b"");
            world.drops(OUTSIDE, &syn, Counter::NoBackend);
        }
    }
}

/// The backend before is late, and its client has another one: it gets the answers of
/// one of them only.
#[test]
fn answers_of_the_backend_before_are_dropped() {
    let mut world = World::new(&Plan::default());
    assert_eq!(client(&mut world, CLIENT, VIP, "S").as_deref(), Some(FIRST));
    drain(&world, FIRST);
    world.now_ms += 1600;
    assert_eq!(client(&mut world, CLIENT, VIP, "S").as_deref(), Some(SECOND));
    for flags in ["SA", "R", "RA"] {
        let late = tcp(Link::from_backend(1), FIRST, CLIENT, flags, b"");
        world.drops(INSIDE, &late, Counter::StaleAnswer);
    }
    server(&mut world, SECOND, CLIENT, "SA");
    assert_eq!(client(&mut world, CLIENT, VIP, "A").as_deref(), Some(SECOND));
    assert_eq!(state(&world, CLIENT, VIP), ConnState::Established);
}

#[test]
fn other_packets_of_a_drained_backends_connection_go_on() {
    let mut world = World::new(&Plan::default());
    let backend = open(&mut world, CLIENT);
    drain(&world, &backend);
    for flags in ["A", "PA", "SA", "FA"] {
        assert_eq!(client(&mut world, CLIENT, VIP, flags).as_ref(), Some(&backend), "{flags}");
    }
    assert_eq!(world.count(Counter::Rescheduled), 0);
}

/// A connection with rules in the NIC is never removed.
#[test]
fn a_connection_with_rules_stays_until_they_are_gone() {
    let mut world = World::new(&Plan::default());
    let backend = open(&mut world, CLIENT);
    close(&mut world, CLIENT, &backend);
    let conn = conn(&world, CLIENT, VIP);
    let offload = |world: &World, from, to| world.shared.table().change_offload(conn, from, to);
    assert!(offload(&world, OffloadState::None, OffloadState::Installed));
    world.now_ms += 1600;
    assert_eq!(client(&mut world, CLIENT, VIP, "S"), Some(backend.clone()), "as good as any");
    close(&mut world, CLIENT, &backend);
    drain(&world, &backend);
    world.out.offload.clear();
    let syn = tcp(Link::CLIENT, CLIENT, VIP, "S", b"");
    world.drops(OUTSIDE, &syn, Counter::RulesRemain);
    assert_eq!(world.out.offload, [(conn, Offload::Closing)]);
    assert!(offload(&world, OffloadState::Installed, OffloadState::None));
    assert_eq!(client(&mut world, CLIENT, VIP, "S").as_deref(), Some(SECOND));
}

/// 44 of 100 idle connections went to another backend after one such RST each.
#[test]
fn a_forged_reset_ends_no_idle_connection() {
    for vip in [VIP, DSR] {
        let mut world = World::new(&Plan { connections: 128, ..Plan::default() });
        let clients: Vec<String> = (0..100).map(|n| format!("9.9.9.9:{}", 5000 + n)).collect();
        for from in &clients {
            if vip == VIP {
                open(&mut world, from);
            } else {
                for flags in ["S", "A"] {
                    client(&mut world, from, vip, flags).unwrap();
                }
            }
        }
        for from in &clients {
            client(&mut world, from, vip, "R").unwrap();
        }
        if vip == VIP {
            assert_eq!(world.count(Counter::ResetDoubted), 100);
            assert!(clients.iter().all(|from| state(&world, from, vip) == ConnState::Established));
            assert_eq!(due(&world, 800_000), 0);
        }
        assert_eq!(due(&world, 200_000), 0);
    }
}

/// `shutdown(SHUT_WR)` and a slow answer that goes past the load balancer.
#[test]
fn a_half_closed_one_way_connection_waits_for_its_answer() {
    let mut world = World::new(&Plan::default());
    for flags in ["S", "A", "FA"] {
        client(&mut world, CLIENT, DSR, flags).unwrap();
    }
    assert_eq!(due(&world, 61_000), 0);
    assert_eq!(due(&world, 241_000), 1);
}

/// The clients' side can't speak for a backend.
#[test]
fn what_a_backend_says_must_come_from_its_side() {
    let mut world = World::new(&Plan::default());
    let forged = |from: &str, to: &str, flags: &str| tcp(Link::CLIENT, from, to, flags, b"x");
    let stranger = "8.8.8.8:4444";
    world.drops(OUTSIDE, &forged(FIRST, stranger, "A"), Counter::WrongSide);
    world.drops(OUTSIDE, &forged(DSR, stranger, "A"), Counter::WrongSide);
    let honest = tcp(Link::from_backend(1), FIRST, stranger, "A", b"x");
    let sent = world.one(INSIDE, &honest).unwrap();
    assert_eq!((sent.0, source(&sent.1).to_string()), (OUTSIDE, VIP.to_owned()));
    let past = tcp(Link::new(crate::world::backend_mac(1), LB_IN, 64), DSR, stranger, "A", b"x");
    assert!(world.one(INSIDE, &past).is_some());

    assert_eq!(client(&mut world, CLIENT, VIP, "S").as_deref(), Some(FIRST));
    for flags in ["SA", "FA", "R", "A"] {
        world.drops(OUTSIDE, &forged(FIRST, CLIENT, flags), Counter::WrongSide);
        assert_eq!(state(&world, CLIENT, VIP), ConnState::Syn, "{flags}");
    }
    server(&mut world, FIRST, CLIENT, "SA");
    client(&mut world, CLIENT, VIP, "A");
    for flags in ["FA", "R"] {
        world.drops(OUTSIDE, &forged(FIRST, CLIENT, flags), Counter::WrongSide);
        assert_eq!(state(&world, CLIENT, VIP), ConnState::Established, "{flags}");
    }
}

/// Also when the connection is only just there.
#[test]
fn an_answer_in_the_burst_of_its_syn_must_come_from_its_side() {
    let mut world = World::new(&Plan::default());
    let burst = vec![
        HeapPacket::new(&tcp(Link::CLIENT, CLIENT, VIP, "S", b"")),
        HeapPacket::new(&tcp(Link::CLIENT, FIRST, CLIENT, "SA", b"")),
    ];
    assert_eq!(world.burst(OUTSIDE, burst).len(), 1);
    assert_eq!(world.count(Counter::WrongSide), 1);
    assert_eq!(state(&world, CLIENT, VIP), ConnState::Syn);
}

#[test]
fn a_forged_datagram_answers_nothing() {
    let mut world = World::new(&Plan::default());
    let (vip, backend) = ("10.9.0.1:53", "10.1.0.11:5353");
    let asked = udp(Link::CLIENT, CLIENT, vip, b"?");
    world.one(OUTSIDE, &asked).unwrap();
    let forged = udp(Link::CLIENT, backend, CLIENT, b"!");
    world.drops(OUTSIDE, &forged, Counter::WrongSide);
    let state = |world: &World| {
        let hit = world.shared.table().lookup(&key(&asked)).unwrap();
        assert_eq!(hit.direction, Direction::Forward);
        world.shared.table().state(hit.conn).unwrap()
    };
    assert_eq!(state(&world), ConnState::Unanswered);
    world.one(INSIDE, &udp(Link::from_backend(1), backend, CLIENT, b"!")).unwrap();
    assert_eq!(state(&world), ConnState::Stream);
}
