//! Backends of services with connections: drained they get no new ones, and
//! come back as they were.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests may")]
use crate::common;

use common::{client, ip, table, web};
use flow::{BackendId, Scheduler};
use proptest::prelude::*;
use service::{BackendLoads, Registry, ServiceTable, SteerError, WorkerScheduleState};

const SCHEDULERS: [Scheduler; 5] = [
    Scheduler::RoundRobin,
    Scheduler::WeightedRoundRobin,
    Scheduler::LeastConnections,
    Scheduler::Maglev,
    Scheduler::SourceHash,
];

fn address(place: usize) -> std::net::IpAddr {
    ip(&format!("10.72.0.{}", place + 1))
}

fn weights_of(table: &ServiceTable) -> Vec<u16> {
    let service = &table.services()[0];
    for own in service.backends() {
        assert_eq!(table.backend(own.id), Some(own), "both copies are the same");
    }
    service.backends().iter().map(|own| own.weight).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    /// A worker whose table is exchanged under it, against a table whose weights
    /// are configured so.
    #[test]
    fn a_drained_backend_is_one_without_a_weight(
        weights in prop::collection::vec(0_u16..6, 1..7),
        scheduler in prop::sample::select(SCHEDULERS.to_vec()),
        steps in prop::collection::vec((any::<prop::sample::Index>(), any::<bool>()), 1..12),
    ) {
        let first = table(&[web(scheduler, &weights)]);
        let (mut now, mut expected) = (first.clone(), weights.clone());
        let (mut state, loads) = (WorkerScheduleState::new(0, &first), BackendLoads::default());
        let name = first.services()[0].name();
        for (step, (which, drain)) in steps.into_iter().enumerate() {
            let place = which.index(weights.len());
            let changes = weights[place] > 0 && (expected[place] > 0) == drain;
            match now.steer(name, address(place), drain) {
                Ok((table, moved)) => {
                    prop_assert!(changes);
                    prop_assert_eq!((moved.share, moved.before, moved.after), (0.0, 0, 0));
                    expected[place] = if drain { 0 } else { weights[place] };
                    now = table;
                }
                Err(SteerError::NoBackend { .. }) => prop_assert_eq!(weights[place], 0),
                Err(error) => prop_assert!(!changes, "{}", error),
            }
            prop_assert_eq!(weights_of(&now), expected.clone());
            let service = &now.services()[0];
            for (place, weight) in weights.iter().enumerate() {
                let drained = expected[place] == 0 && *weight > 0;
                prop_assert_eq!(service.is_drained(BackendId(place as u16)), drained);
            }
            let configured = table(&[web(scheduler, &expected)]);
            for number in 0..60 {
                let flow = client(step as u32 * 60 + number);
                let chosen = service.schedule(&flow, &mut state, &loads);
                prop_assert_eq!(chosen.is_some(), expected.iter().any(|weight| *weight > 0));
                if let Some(chosen) = chosen {
                    prop_assert!(expected[usize::from(chosen.0)] > 0, "{:?} is drained", chosen);
                    loads.opened(chosen);
                }
                prop_assert_eq!(service.hashed(&flow), configured.services()[0].hashed(&flow));
            }
        }
    }
}

#[test]
fn what_is_drained_stays_so_in_another_configuration() {
    let mut registry = Registry::default();
    let specs = [web(Scheduler::Maglev, &[1, 2, 3, 4])];
    let mut old = ServiceTable::empty([1, 2], None).successor(&specs, &mut registry).unwrap();
    let name = old.services()[0].name().to_owned();
    for place in [0, 1, 3] {
        old = old.steer(&name, address(place), true).unwrap().0;
    }
    // One is gone, one has no weight any more, another is new.
    let specs = [web(Scheduler::Maglev, &[0, 5, 6])];
    let new = old.successor(&specs, &mut registry).unwrap();
    assert_eq!(weights_of(&new), [0, 0, 6]);
    let drained = |table: &ServiceTable, id| table.services()[0].is_drained(BackendId(id));
    assert!(!drained(&new, 0) && drained(&new, 1) && !drained(&new, 2));
    assert_eq!(weights_of(&new.steer(&name, address(1), false).unwrap().0), [0, 5, 6]);
    // Another service, which has the same backends.
    let mut spec = web(Scheduler::Maglev, &[1, 1]);
    spec.name = "other".to_owned();
    let other = old.successor(&[spec], &mut registry).unwrap();
    assert_eq!(weights_of(&other), [1, 1]);
}

#[test]
fn all_ports_of_an_address_are_drained_at_once() {
    let mut spec = web(Scheduler::RoundRobin, &[1, 1]);
    spec.backends.push(common::backend("10.72.0.1", Some(9090), 7));
    let first = table(&[spec]);
    let name = first.services()[0].name();
    let (drained, _) = first.steer(name, address(0), true).unwrap();
    assert_eq!(weights_of(&drained), [0, 1, 0]);
    assert!(matches!(drained.steer(name, address(0), true), Err(SteerError::Already { .. })));
    assert_eq!(weights_of(&drained.steer(name, address(0), false).unwrap().0), [1, 1, 7]);
}
