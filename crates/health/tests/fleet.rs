//! Many backends: each is probed when it is due, by what is configured last.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests may")]

use std::collections::BTreeMap;

use health::{Check, Fleet, Outcome, Settings, State, Target, TargetKey};
use proptest::prelude::*;

fn target(host: u8, port: u16, interval_ms: u64) -> Target {
    let address = format!("10.0.0.{host}").parse().unwrap();
    Target {
        key: TargetKey { service: "web".to_owned(), address, port: Some(80) },
        at: std::net::SocketAddr::new(address, port),
        check: Check::Tcp,
        settings: Settings {
            interval_ms,
            timeout_ms: 50,
            rise: 1,
            fall: 2,
            jitter: 10,
            slow_start_ms: 0,
        },
    }
}

#[derive(Clone, Debug)]
enum Event {
    /// Hosts, with the port and the interval of each.
    Set(BTreeMap<u8, (u16, u64)>),
    Advance(u64),
    /// A probe that is under way ends.
    Finish(prop::sample::Index, bool),
}

fn event() -> impl Strategy<Value = Event> {
    let set = prop::collection::btree_map(1_u8..8, (80_u16..82, 100_u64..300), 0..6);
    prop_oneof![
        1 => set.prop_map(Event::Set),
        4 => (1_u64..400).prop_map(Event::Advance),
        8 => (any::<prop::sample::Index>(), any::<bool>()).prop_map(|(which, ok)| Event::Finish(which, ok)),
    ]
}

proptest! {
    /// At any time a backend has one probe that counts under way or due, none that is
    /// not configured is probed, and one of an earlier configuration counts nothing.
    #[test]
    fn each_backend_has_one_probe_at_a_time(events in prop::collection::vec(event(), 1..80), seed: u64) {
        let mut fleet = Fleet::new(seed);
        let (mut now_ms, mut under_way) = (0, Vec::new());
        let mut wanted: BTreeMap<u8, (u16, u64)> = BTreeMap::new();
        // By host: whether a probe that counts is under way.
        let mut counting: BTreeMap<u8, bool> = BTreeMap::new();
        let host = |target: &Target| match target.at.ip() {
            std::net::IpAddr::V4(address) => address.octets()[3],
            std::net::IpAddr::V6(_) => 0,
        };
        for event in events {
            match event {
                Event::Set(next) => {
                    fleet.set(next.iter().map(|(n, (port, every))| target(*n, *port, *every)).collect(), now_ms);
                    for n in next.keys() {
                        let same = wanted.get(n).map(|own| own.0) == next.get(n).map(|own| own.0);
                        if !same {
                            counting.insert(*n, false);
                        }
                    }
                    counting.retain(|n, _| next.contains_key(n));
                    wanted = next;
                }
                Event::Advance(by) => {
                    now_ms += by;
                    let (begin, _) = fleet.tick(now_ms);
                    for ticket in begin {
                        let n = host(&ticket.target);
                        let (port, every) = wanted[&n];
                        prop_assert_eq!(&ticket.target, &target(n, port, every));
                        prop_assert_eq!(counting.insert(n, true), Some(false), "two at a time");
                        under_way.push(ticket);
                    }
                }
                Event::Finish(..) if under_way.is_empty() => {}
                Event::Finish(which, passed) => {
                    let ticket = under_way.swap_remove(which.index(under_way.len()));
                    let n = host(&ticket.target);
                    let outcome = if passed { Outcome::Passed } else { Outcome::Failed("no".into()) };
                    let (counts, _) = fleet.finish(&ticket, outcome, now_ms);
                    if counts {
                        prop_assert_eq!(counting.insert(n, false), Some(true));
                        prop_assert_eq!(wanted.get(&n).map(|own| own.0), Some(ticket.target.at.port()));
                    }
                }
            }
            // Those that are not under way are due within an interval and its jitter.
            let idle = counting.values().any(|counts| !counts);
            prop_assert_eq!(fleet.due_ms().is_some(), idle);
            prop_assert!(fleet.due_ms().is_none_or(|due_ms| due_ms <= now_ms + 331));
        }
    }
}

#[test]
fn what_is_known_of_a_backend_survives_a_change_of_its_check() {
    let mut fleet = Fleet::new(1);
    fleet.set(vec![target(1, 80, 100)], 0);
    let begin = fleet.tick(100).0;
    let (_, change) = fleet.finish(&begin[0], Outcome::Failed("no".into()), 100);
    assert_eq!(change.unwrap().state, State::Down);
    // Asked at another port, and up by that: a change, so it was down until then.
    fleet.set(vec![target(1, 81, 100)], 150);
    let begin = fleet.tick(1000).0;
    let (_, change) = fleet.finish(&begin[0], Outcome::Passed, 1000);
    assert_eq!(change.unwrap().state, State::Up);
    assert!(fleet.finish(&begin[0], Outcome::Passed, 1000).1.is_none_or(|own| own.percent != 0));
}
