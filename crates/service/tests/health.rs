//! Backends that health checks take down: weights against what the words say.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests may")]
use crate::common;

use common::{client, ip, table, web};
use flow::{AllDown, OnRemove, Scheduler};
use proptest::prelude::*;
use service::{BackendLoads, Failover, Health, ServiceTable, WorkerScheduleState};

#[derive(Clone, Debug)]
struct One {
    weight: u16,
    backup: bool,
    drained: bool,
    up: bool,
}

fn one() -> impl Strategy<Value = One> {
    (0_u16..6, prop::bool::weighted(0.3), prop::bool::weighted(0.2), any::<bool>())
        .prop_map(|(weight, backup, drained, up)| One { weight, backup, drained, up })
}

/// Which backends get new connections.
fn serving(all: &[One], all_down: AllDown) -> Vec<bool> {
    let could = |own: &One| own.weight > 0 && !own.drained;
    let groups: [&dyn Fn(&One) -> bool; 3] = [
        &|own| could(own) && own.up && !own.backup,
        &|own| could(own) && own.up && own.backup,
        &|own| could(own) && !own.backup && all_down == AllDown::ServeAll,
    ];
    let group = groups.into_iter().find(|group| all.iter().any(group));
    all.iter().map(|own| group.is_some_and(|group| group(own))).collect()
}

fn place(host: usize) -> std::net::IpAddr {
    ip(&format!("10.72.0.{}", host + 1))
}

fn standing(all: &[One], failover: Failover, drain_first: bool) -> ServiceTable {
    let weights: Vec<u16> = all.iter().map(|own| own.weight).collect();
    let mut spec = web(Scheduler::Maglev, &weights);
    spec.maglev_size = 1009;
    spec.failover = failover;
    spec.backends.iter_mut().zip(all).for_each(|(own, one)| own.backup = one.backup);
    let mut now = table(&[spec]);
    let name = now.services()[0].name().to_owned();
    let health = |now: ServiceTable| {
        let up = |_: &str, own: &service::Backend| {
            let host = (0..all.len()).find(|host| place(*host) == own.address).unwrap();
            if all[host].up { Health::UP } else { Health::DOWN }
        };
        now.with_health(&up).map_or(now, |(next, _)| next)
    };
    if !drain_first {
        now = health(now);
    }
    for (host, _) in all.iter().enumerate().filter(|(_, own)| own.drained && own.weight > 0) {
        now = now.steer(&name, place(host), true).unwrap().0;
    }
    health(now)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn the_first_group_that_can_serve_does(
        all in prop::collection::vec(one(), 1..6),
        all_down in prop::sample::select(AllDown::ALL.to_vec()),
        connections in prop::sample::select(OnRemove::ALL.to_vec()),
        drain_first: bool,
    ) {
        let table = standing(&all, Failover { connections, all_down }, drain_first);
        let service = &table.services()[0];
        let expected = serving(&all, all_down);
        for ((own, one), serves) in service.backends().iter().zip(&all).zip(&expected) {
            prop_assert_eq!(own.weight, if *serves { one.weight } else { 0 });
            prop_assert_eq!(table.backend(own.id), Some(own), "both copies are the same");
            prop_assert_eq!(service.serves(own.id), *serves);
            prop_assert_eq!(service.is_down(own.id), !one.up);
            let gives_up = !one.up && !serves;
            let fate = if gives_up { connections } else { OnRemove::Keep };
            prop_assert_eq!(table.on_remove(own.id), fate);
        }
        let any = service.backends().iter().any(|own| !table.on_remove(own.id).is_keep());
        prop_assert_eq!(table.gives_up_connections(), any);
        // Neither the scheduler nor hashing gives another one anything.
        let (mut state, loads) = (WorkerScheduleState::new(0, &table), BackendLoads::default());
        for number in 0..200 {
            let flow = client(number);
            for chosen in [service.schedule(&flow, &mut state, &loads), service.hashed(&flow)] {
                let host = chosen.map(|id| table.backend(id).unwrap().address);
                let ok = match host {
                    Some(host) => (0..all.len()).any(|n| place(n) == host && expected[n]),
                    None => !expected.contains(&true),
                };
                prop_assert!(ok, "{host:?}");
            }
        }
    }

    /// Weights in a slow start are in proportion to their parts.
    #[test]
    fn a_part_of_a_weight_is_that_part(
        weights in prop::collection::vec(1_u16..=u16::MAX, 2..6), percent in 1_u8..100,
    ) {
        let first = table(&[web(Scheduler::WeightedRoundRobin, &weights)]);
        let part = |_: &str, own: &service::Backend| {
            if own.address == place(0) { Health::percent(percent) } else { Health::UP }
        };
        let (now, _) = first.with_health(&part).unwrap();
        let found: Vec<f64> =
            now.services()[0].backends().iter().map(|own| f64::from(own.weight)).collect();
        let wanted: Vec<f64> = weights.iter().enumerate()
            .map(|(host, weight)| f64::from(*weight) * if host == 0 { f64::from(percent) / 100.0 } else { 1.0 })
            .collect();
        prop_assert!(found.iter().all(|weight| *weight >= 1.0));
        let (most, scale) = (found.iter().copied().fold(0.0, f64::max), wanted.iter().copied().fold(0.0, f64::max));
        for (found, wanted) in found.iter().zip(&wanted) {
            // Whole numbers: off by one at most.
            prop_assert!((found - wanted * most / scale).abs() <= 1.5, "{found} {wanted}");
        }
        let (again, _) = now.with_health(&|_, _| Health::UP).unwrap();
        let back: Vec<u16> = again.services()[0].backends().iter().map(|own| own.weight).collect();
        prop_assert_eq!(back, weights);
        prop_assert!(again.with_health(&|_, _| Health::UP).is_none());
    }
}
