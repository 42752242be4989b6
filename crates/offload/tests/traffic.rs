//! Connections through the pipeline, the ager, the offloader and emulated NICs.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use crate::common;

use std::net::SocketAddr;

use common::lab::Lab;
use flow::Encoding;
use state::Counter;

fn at(text: &str) -> SocketAddr {
    text.parse().unwrap()
}

fn client(n: u16) -> SocketAddr {
    SocketAddr::from(([172, 16, 0, 1], 20_000 + n))
}

fn vip() -> SocketAddr {
    at("10.9.0.1:80")
}

/// A handshake; the backend that was chosen.
fn open(lab: &mut Lab, n: u16) -> SocketAddr {
    lab.arrive(0, client(n), vip(), "S");
    let backend = lab.poll()[0].1;
    lab.arrive(1, backend, client(n), "SA");
    assert_eq!(lab.poll(), [(vip(), client(n))]);
    lab.arrive(0, client(n), vip(), "A");
    assert_eq!(lab.poll(), [(client(n), backend)]);
    (0..4).for_each(|_| lab.keep(20));
    backend
}

/// A packet each way reaches its end.
fn exchange(lab: &mut Lab, n: u16, backend: SocketAddr) {
    lab.arrive(0, client(n), vip(), "A");
    assert_eq!(lab.poll(), [(client(n), backend)], "at {} s", lab.now_ms / 1000);
    lab.arrive(1, backend, client(n), "A");
    assert_eq!(lab.poll(), [(vip(), client(n))], "at {} s", lab.now_ms / 1000);
}

/// Time without packets: the keeper's turns and the worker's empty polls.
fn idle(lab: &mut Lab, seconds: u64) {
    for _ in 0..seconds * 4 {
        lab.keep(250);
        assert!(lab.poll().is_empty());
    }
}

/// The ring to the offload side has no room when both ends say FIN, so the
/// worker's message is lost. The connection's state in the table tells the
/// ager, long before the timeout of a minute.
#[test]
fn rules_of_an_ended_connection_go_though_the_message_is_lost() {
    for encoding in [Encoding::Mark, Encoding::Queue] {
        let mut lab = Lab::new(encoding, 64);
        let backend = open(&mut lab, 0);
        assert_eq!(lab.rules(), 2, "both directions");
        lab.fill_ring(true);
        lab.arrive(0, client(0), vip(), "FA");
        lab.arrive(1, backend, client(0), "FA");
        assert_eq!(lab.poll().len(), 2);
        lab.fill_ring(false);
        assert!(lab.worker.counters().get(Counter::OffloadRingFull) > 0, "it was lost");
        idle(&mut lab, 3);
        assert_eq!((lab.rules(), lab.shared.table().len()), (0, 1), "{encoding}");
        // Until the timeout the connection is served in software.
        exchange(&mut lab, 0, backend);
    }
}

/// A packet of the client every 20 s, of which in `queue` one in 64 is looked
/// up: every 21 minutes, while the timeout is 15 minutes.
fn a_slow_connection_lives(encoding: Encoding) {
    let mut lab = Lab::new(encoding, 64);
    let backend = open(&mut lab, 0);
    assert_eq!(lab.rules(), 2, "both directions");
    let packets = 4 * 3600 / 20;
    for _ in 0..packets {
        lab.arrive(0, client(0), vip(), "A");
        assert_eq!(lab.poll(), [(client(0), backend)], "at {} s", lab.now_ms / 1000);
        idle(&mut lab, 20);
        assert_eq!(lab.shared.table().len(), 1, "at {} s", lab.now_ms / 1000);
    }
    assert_eq!(lab.ager.removed(), 0);
    assert!(lab.matched() > packets / 3, "only {} of {packets} packets matched", lab.matched());
    let counter = match encoding {
        Encoding::Mark => Counter::MatchedByMark,
        _ => Counter::MatchedByQueue,
    };
    assert!(lab.worker.counters().get(counter) > packets / 3, "the worker did not believe it");
    if encoding == Encoding::Queue {
        assert!(lab.offloader.stats().withdrawn > 0, "it never looked idle");
    }
    // When it has really ended, it goes: after two timeouts at most.
    idle(&mut lab, 2 * 900 + 30);
    assert_eq!((lab.shared.table().len(), lab.rules(), lab.ager.removed()), (0, 0, 1));
    assert_eq!(lab.offloader.stats().connections, 0);
}

#[test]
fn a_slow_connection_keeps_its_backend_in_queue() {
    a_slow_connection_lives(Encoding::Queue);
}

#[test]
fn a_slow_connection_keeps_its_backend_in_mark() {
    a_slow_connection_lives(Encoding::Mark);
}

#[test]
fn in_mark_ageing_is_exact_so_one_timeout_is_enough() {
    let mut lab = Lab::new(Encoding::Mark, 0);
    let backend = open(&mut lab, 0);
    exchange(&mut lab, 0, backend);
    idle(&mut lab, 880);
    assert_eq!((lab.shared.table().len(), lab.rules()), (1, 2));
    idle(&mut lab, 25);
    assert_eq!((lab.shared.table().len(), lab.rules()), (0, 0));
}

#[test]
fn the_rules_of_a_closed_connection_go_soon_and_it_stays_for_its_last_packets() {
    for encoding in [Encoding::Mark, Encoding::Queue] {
        let mut lab = Lab::new(encoding, 64);
        let backend = open(&mut lab, 0);
        assert_eq!(lab.rules(), 2);
        lab.arrive(0, client(0), vip(), "FA");
        lab.arrive(1, backend, client(0), "FA");
        assert_eq!(lab.poll().len(), 2);
        (0..30).for_each(|_| lab.keep(10));
        assert_eq!((lab.rules(), lab.shared.table().len()), (0, 1), "{encoding}");
        exchange(&mut lab, 0, backend);
        idle(&mut lab, 70);
        assert_eq!(lab.shared.table().len(), 0, "{encoding}");
    }
}

#[test]
fn a_connection_reopened_while_it_lingers_keeps_its_rules_and_backend() {
    for encoding in [Encoding::Mark, Encoding::Queue] {
        let mut lab = Lab::new(encoding, 64);
        let backend = open(&mut lab, 0);
        lab.arrive(0, client(0), vip(), "FA");
        lab.arrive(1, backend, client(0), "FA");
        lab.poll();
        lab.keep(1);
        lab.arrive(0, client(0), vip(), "S");
        assert_eq!(lab.poll(), [(client(0), backend)], "{encoding}");
        lab.arrive(1, backend, client(0), "SA");
        lab.poll();
        lab.arrive(0, client(0), vip(), "A");
        lab.poll();
        idle(&mut lab, 5);
        assert_eq!(lab.rules(), 2, "{encoding}");
        exchange(&mut lab, 0, backend);
    }
}

#[test]
fn many_connections_reach_their_backends_while_rules_come_and_go() {
    for encoding in [Encoding::Mark, Encoding::Queue] {
        let mut lab = Lab::new(encoding, 64);
        let backends: Vec<SocketAddr> = (0..200).map(|n| open(&mut lab, n)).collect();
        for round in 0..5 {
            for (n, &backend) in backends.iter().enumerate() {
                exchange(&mut lab, n as u16, backend);
                if n % 5 == round {
                    lab.arrive(0, client(n as u16), vip(), "R");
                    lab.poll();
                    lab.keep(1);
                }
            }
            idle(&mut lab, 1);
        }
        idle(&mut lab, 1000);
        idle(&mut lab, 1000);
        assert_eq!((lab.rules(), lab.shared.table().len()), (0, 0), "{encoding}");
    }
}
