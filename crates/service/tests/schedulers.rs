//! Each scheduler against what it promises.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests may")]
use crate::common;

use common::{client, flow, table, web};
use flow::{BackendId, Scheduler};
use proptest::prelude::*;
use service::{BackendLoads, Key128, Registry, ServiceTable, WorkerScheduleState};
use wire::Transport;

/// The places of `count` choices by worker `worker`.
fn choices(scheduler: Scheduler, weights: &[u16], worker: usize, count: u32) -> Vec<u16> {
    let table = table(&[web(scheduler, weights)]);
    let (mut state, loads) = (WorkerScheduleState::new(worker, &table), BackendLoads::default());
    let service = &table.services()[0];
    (0..count).map(|n| service.schedule(&client(n), &mut state, &loads).unwrap().0).collect()
}

fn tally(choices: &[u16], places: usize) -> Vec<u32> {
    let mut tally = vec![0; places];
    choices.iter().for_each(|place| tally[usize::from(*place)] += 1);
    tally
}

#[test]
fn round_robin_takes_turns_and_skips_the_drained() {
    assert_eq!(choices(Scheduler::RoundRobin, &[1, 9, 0, 1], 0, 7), [0, 1, 3, 0, 1, 3, 0]);
    assert_eq!(choices(Scheduler::RoundRobin, &[1, 9, 0, 1], 1, 4), [1, 3, 0, 1]);
    assert_eq!(choices(Scheduler::RoundRobin, &[1, 9, 0, 1], 4, 2), [1, 3]);
}

/// The example in the description of nginx' change that introduced the method.
#[test]
fn weighted_round_robin_is_smooth() {
    let cycle = choices(Scheduler::WeightedRoundRobin, &[5, 1, 1], 0, 7);
    assert_eq!(cycle, [0, 0, 1, 0, 2, 0, 0]);
    let other = choices(Scheduler::WeightedRoundRobin, &[5, 1, 1], 2, 7);
    assert_eq!(other, [1, 0, 2, 0, 0, 0, 0]);
}

proptest! {
    #[test]
    fn weighted_round_robin_is_exact_over_a_cycle(
        weights in prop::collection::vec(0_u16..30, 1..12), worker in 0_usize..9,
    ) {
        let cycle: u32 = weights.iter().map(|weight| u32::from(*weight)).sum();
        prop_assume!(cycle > 0);
        let choices = choices(Scheduler::WeightedRoundRobin, &weights, worker, cycle * 2);
        let expected: Vec<_> = weights.iter().map(|weight| u32::from(*weight)).collect();
        let (first, second) = choices.split_at(cycle as usize);
        prop_assert_eq!(tally(first, weights.len()), expected);
        prop_assert_eq!(first, second);
    }

    /// Whatever is opened and closed, the chosen one has the least quotient of
    /// connections and weight of all.
    #[test]
    fn least_connections_has_the_least_load(
        weights in prop::collection::vec(0_u16..5, 1..8),
        ends in prop::collection::vec(any::<Option<prop::sample::Index>>(), 1..120),
    ) {
        prop_assume!(weights.iter().any(|weight| *weight > 0));
        let table = table(&[web(Scheduler::LeastConnections, &weights)]);
        let (mut state, loads) = (WorkerScheduleState::new(1, &table), BackendLoads::default());
        let (mut model, mut open) = (vec![0_u32; weights.len()], Vec::new());
        for (n, end) in (0..).zip(ends) {
            if let Some(end) = end.filter(|_| !open.is_empty()) {
                let BackendId(place) = open.swap_remove(end.index(open.len()));
                loads.closed(BackendId(place));
                model[usize::from(place)] -= 1;
                continue;
            }
            let chosen = table.services()[0].schedule(&client(n), &mut state, &loads).unwrap();
            let load = |place: usize| f64::from(model[place]) / f64::from(weights[place]);
            let place = usize::from(chosen.0);
            prop_assert!(weights[place] > 0);
            for other in (0..weights.len()).filter(|other| weights[*other] > 0) {
                prop_assert!(load(place) <= load(other), "{model:?} {place}");
            }
            loads.opened(chosen);
            model[place] += 1;
            open.push(chosen);
        }
    }
}

#[test]
fn equally_loaded_backends_take_turns() {
    let choices = choices(Scheduler::LeastConnections, &[1, 1, 0, 1], 0, 300);
    assert_eq!(tally(&choices, 4), [100, 100, 0, 100]);
}

#[test]
fn workers_start_at_different_places() {
    for scheduler in
        [Scheduler::RoundRobin, Scheduler::WeightedRoundRobin, Scheduler::LeastConnections]
    {
        let mut first: Vec<_> = (0..4).map(|w| choices(scheduler, &[1; 4], w, 1)[0]).collect();
        first.sort_unstable();
        assert_eq!(first, [0, 1, 2, 3], "{scheduler:?}");
    }
}

#[test]
fn maglev_spreads_connections_by_weight() {
    let tally = tally(&choices(Scheduler::Maglev, &[1, 2, 1, 0], 0, 40_000), 4);
    for (found, expected) in tally.iter().zip([10_000_u32, 20_000, 10_000, 0]) {
        assert!(found.abs_diff(expected) <= 400, "{tally:?}");
    }
}

/// A service of any scheduler serves without state, and in the same way but for
/// `source-hash`, whose own choice needs no state.
#[test]
fn stateless_choice_does_not_depend_on_the_scheduler() {
    let weights = [1, 2, 3, 4];
    let expected = choices(Scheduler::Maglev, &weights, 0, 1000);
    for scheduler in [
        Scheduler::RoundRobin,
        Scheduler::WeightedRoundRobin,
        Scheduler::LeastConnections,
        Scheduler::LeastLatency,
    ] {
        let table = table(&[web(Scheduler::RoundRobin, &[1]), {
            let mut other = web(scheduler, &weights);
            other.port = Some(81);
            other
        }]);
        let service = &table.services()[1];
        let found: Vec<_> = (0..1000).map(|n| service.hashed(&client(n)).unwrap().0 - 1).collect();
        assert_eq!(found, expected, "{scheduler:?}");
    }
}

#[test]
fn source_hash_looks_at_the_clients_address_only() {
    let table = table(&[web(Scheduler::SourceHash, &[1; 20])]);
    let (mut state, loads) = (WorkerScheduleState::new(0, &table), BackendLoads::default());
    let service = &table.services()[0];
    let mut choose = |src: &str| {
        let flow = flow(Transport::Tcp, src, "10.71.0.100:80");
        let chosen = service.schedule(&flow, &mut state, &loads);
        assert_eq!(chosen, service.hashed(&flow), "with the table full, and after a restart");
        chosen.unwrap()
    };
    let one = choose("10.71.0.7:1000");
    assert!((1001..2000).all(|port| choose(&format!("10.71.0.7:{port}")) == one));
    let mut all: Vec<_> = (0..250).map(|host| choose(&format!("10.71.0.{host}:1000"))).collect();
    all.sort_unstable();
    all.dedup();
    assert!(all.len() >= 18, "{all:?}");
}

/// The clients of those who stay seldom move.
#[test]
fn source_hash_moves_few_clients() {
    let weights = [1; 20];
    let before = table(&[web(Scheduler::SourceHash, &weights)]);
    let mut spec = web(Scheduler::SourceHash, &weights);
    spec.backends.remove(7);
    let after = table(&[spec]);
    let choose = |table: &service::ServiceTable, n: u32| {
        let (mut state, loads) = (WorkerScheduleState::new(0, table), BackendLoads::default());
        let flow =
            flow(Transport::Tcp, &format!("10.0.{}.{}:9", n / 250, n % 250), "10.71.0.100:80");
        let id = table.services()[0].schedule(&flow, &mut state, &loads).unwrap();
        table.backend(id).unwrap().address
    };
    let gone = before.backends()[7].address;
    let moved = (0..5000)
        .filter(|n| {
            let (old, new) = (choose(&before, *n), choose(&after, *n));
            assert_ne!(new, gone);
            old != gone && old != new
        })
        .count();
    assert!(moved <= 150, "{moved} of 5000");
}

#[test]
fn nobody_is_chosen_when_all_are_drained() {
    for scheduler in [
        Scheduler::RoundRobin,
        Scheduler::WeightedRoundRobin,
        Scheduler::LeastConnections,
        Scheduler::Maglev,
        Scheduler::SourceHash,
    ] {
        for weights in [&[][..], &[0, 0][..]] {
            let table = table(&[web(scheduler, weights)]);
            let (mut state, loads) = (WorkerScheduleState::new(3, &table), BackendLoads::default());
            let service = &table.services()[0];
            assert_eq!(service.schedule(&client(1), &mut state, &loads), None);
            assert_eq!(service.hashed(&client(1)), None);
        }
    }
}

/// What a worker remembers is by id, so it serves every table.
#[test]
fn a_workers_memory_serves_the_next_table() {
    for scheduler in [Scheduler::RoundRobin, Scheduler::WeightedRoundRobin] {
        let mut state = WorkerScheduleState::new(0, &table(&[]));
        let table = table(&[web(scheduler, &[1, 1])]);
        let service = &table.services()[0];
        state.follow(&table);
        let mut next = || service.schedule(&client(1), &mut state, &BackendLoads::default());
        assert_eq!([next(), next()], [Some(BackendId(0)), Some(BackendId(1))]);
    }
}

/// New connections to three backends, of which each answers after its time.
fn answering(after_ms: [Option<u64>; 3], connections: u32) -> Vec<u32> {
    let table = table(&[web(Scheduler::LeastLatency, &[1, 1, 1])]);
    let (mut state, loads) = (WorkerScheduleState::new(0, &table), BackendLoads::default());
    let mut answers: Vec<(u64, u32)> = Vec::new();
    let mut chosen = Vec::new();
    for n in 0..connections {
        let now_ms = 70_000 + u64::from(n);
        answers.retain(|(at, conn)| {
            if *at <= now_ms {
                loads.answered((*conn, 1), *at);
            }
            *at > now_ms
        });
        let id = table.services()[0].schedule(&client(n), &mut state, &loads).unwrap();
        loads.asked((n, 1), id, now_ms);
        loads.waits(id, now_ms);
        answers.extend(after_ms[usize::from(id.0)].map(|after| (now_ms + after, n)));
        chosen.push(id.0);
    }
    tally(&chosen, 3)
}

#[test]
fn least_latency_avoids_a_slow_backend_and_a_silent_one() {
    for slow in [Some(20), None] {
        let tally = answering([Some(1), slow, Some(1)], 4000);
        // With two choices of three a backend that loses each comparison gets
        // what explores, 1/32 of a third, and what came before it was known.
        assert!(tally[1] < 100, "{tally:?}");
        assert!(tally[0] > 1000 && tally[2] > 1000, "{tally:?}");
    }
}

#[test]
fn least_latency_shares_alike_among_equals() {
    let tally = answering([Some(3); 3], 6000);
    assert!(tally.iter().all(|share| (1400..2600).contains(share)), "{tally:?}");
}

#[test]
fn least_latency_notices_that_a_backend_is_quick_again() {
    let loads = BackendLoads::default();
    let (slow, now) = (BackendId(1), 1000);
    for n in 0..100 {
        loads.asked((n, 1), slow, now);
        loads.answered((n, 1), now + 50);
    }
    let before = loads.latency(slow);
    assert!((45 * 256..=50 * 256).contains(&before), "{before}");
    for n in 100..200 {
        loads.asked((n, 1), slow, now);
        loads.answered((n, 1), now + 1);
    }
    assert!(loads.latency(slow) < 2 * 256, "{}", loads.latency(slow));
}

#[test]
fn an_answer_is_measured_once_and_only_of_its_own_connection() {
    let (loads, backend) = (BackendLoads::default(), BackendId(7));
    loads.asked((5, 1), backend, 100);
    loads.answered((6, 1), 101);
    loads.answered((5 + (1 << 14), 1), 101);
    // The next connection in the same record, of a service that measures nothing.
    loads.answered((5, 2), 101);
    assert_eq!(loads.latency(BackendId(0)), 0);
    assert_eq!(loads.answered((5, 1), 104), Some((backend, 4)));
    assert_eq!(loads.latency(backend), 4 * 256);
    assert_eq!(loads.answered((5, 1), 900), None);
    assert_eq!(loads.latency(backend), 4 * 256);
    // Over the wrap of 16 bits of milliseconds.
    loads.asked((9, 1), BackendId(8), 65_530);
    loads.answered((9, 1), 65_540);
    assert_eq!(loads.latency(BackendId(8)), 10 * 256);
}

/// Without the key nobody can tell where a flow goes; with it all load balancers
/// agree, also after a reload.
#[test]
fn a_fleet_agrees_by_its_key() {
    let at = |fleet: Option<Key128>, scheduler| {
        let specs = [web(scheduler, &[1; 8])];
        let mut registry = Registry::default();
        let empty = ServiceTable::empty([u64::from(fleet.is_some()), 7], fleet);
        let first = empty.successor(&[], &mut registry).unwrap();
        let table = first.successor(&specs, &mut registry).unwrap();
        let choose = |n: u32| {
            let from = format!("10.{}.{}.7:1000", n / 250, n % 250);
            let flow = flow(Transport::Tcp, &from, "10.71.0.100:80");
            table.hashed(&table.services()[0], &flow).unwrap().0
        };
        (0..2000).map(choose).collect::<Vec<_>>()
    };
    let keys = [None, Some(Key128([1; 16])), Some(Key128([2; 16]))];
    for scheduler in [Scheduler::Maglev, Scheduler::SourceHash] {
        let all = keys.map(|key| at(key, scheduler));
        assert_eq!(all, keys.map(|key| at(key, scheduler)));
        for (one, other) in [(0, 1), (0, 2), (1, 2)] {
            let same = all[one].iter().zip(&all[other]).filter(|(a, b)| a == b).count();
            assert!((100..450).contains(&same), "{scheduler}: {same} of 2000 the same");
        }
    }
}
