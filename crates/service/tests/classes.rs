//! Classes of client addresses: whole, even, and steady when backends fail.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests may")]
use crate::common;

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use common::{backend, ip, spec};
use flow::{BackendId, StatelessKey};
use proptest::prelude::*;
use service::{
    Classes, Entry, ModeSpec, Precision, Registry, ServiceSpec, ServiceTable, SteerError,
};
use wire::Transport;

const FIRST: BackendId = BackendId(7);

fn assign(weights: &[u16]) -> Classes {
    assign_with(weights, Precision::default()).unwrap()
}

fn assign_with(weights: &[u16], precision: Precision) -> Option<Classes> {
    let ids: Vec<BackendId> = (FIRST.0..).map(BackendId).take(weights.len()).collect();
    Classes::assign(&ids, weights, precision)
}

/// Who has each of the 2^14 finest classes, by a linear search in the entries.
fn owners(classes: &Classes) -> Vec<Option<BackendId>> {
    let entries: Vec<Entry> = classes.entries().collect();
    let owner = |low: u32| {
        let mut found = entries.iter().filter(|entry| low & entry.mask() == entry.value);
        let first = found.next().map(|entry| entry.backend);
        assert!(found.next().is_none(), "{low:#x} is covered twice: {entries:?}");
        first
    };
    (0..1 << 14).map(owner).collect()
}

fn weights() -> impl Strategy<Value = Vec<u16>> {
    let weight = prop_oneof![3 => 1_u16..=10, 1 => Just(0_u16), 1 => 1_u16..=100];
    prop::collection::vec(weight, 1..24)
        .prop_filter("all drained", |weights| weights.iter().any(|weight| *weight > 0))
}

/// The ideal share of each backend that can take clients.
fn ideal(weights: &[u16], gone: &[u16]) -> BTreeMap<BackendId, f64> {
    let alive = (0..).zip(weights).filter(|(place, weight)| **weight > 0 && !gone.contains(place));
    let alive: Vec<(u16, u16)> = alive.map(|(place, weight)| (place, *weight)).collect();
    let sum: f64 = alive.iter().map(|(_, weight)| f64::from(*weight)).sum();
    alive
        .iter()
        .map(|(place, weight)| (BackendId(FIRST.0 + place), f64::from(*weight) / sum))
        .collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn every_address_has_one_entry_and_shares_are_within_the_bound(weights in weights()) {
        let classes = assign(&weights);
        let owners = owners(&classes);
        let all = owners.len() as f64;
        for (backend, wanted) in ideal(&weights, &[]) {
            let has = owners.iter().filter(|owner| **owner == Some(backend)).count();
            let off = (has as f64 / all / wanted - 1.0).abs();
            prop_assert!(off <= 0.05 + 1e-9, "{backend:?} of {weights:?} is off by {off}");
            prop_assert!(off <= classes.deviation() + 1e-9);
            // A backend with c classes can't do with fewer entries.
            let entries = classes.entries().filter(|entry| entry.backend == backend).count();
            prop_assert_eq!(entries as u32, has.count_ones());
        }
        prop_assert!(owners.iter().all(|owner| ideal(&weights, &[]).contains_key(&owner.unwrap())));
        for low in [0_u32, 1, 0x1234, 0xffff_ffff, 0x8000_0001] {
            let expected = owners[low as usize % owners.len()];
            let v4 = IpAddr::V4(Ipv4Addr::from_bits(low));
            let v6 = IpAddr::V6(Ipv6Addr::from_bits(7 << 64 | u128::from(low)));
            prop_assert_eq!(classes.backend(v4), expected);
            prop_assert_eq!(classes.backend(v6), expected);
        }
    }

    #[test]
    fn a_failed_backend_moves_only_its_own_classes(
        weights in weights(),
        order in prop::collection::vec((any::<prop::sample::Index>(), any::<bool>()), 1..8),
    ) {
        let mut classes = assign(&weights);
        let base = owners(&classes);
        let mut gone: Vec<u16> = Vec::new();
        for (which, back) in order {
            let before = owners(&classes);
            let eligible: Vec<u16> =
                (0..weights.len() as u16).filter(|place| weights[usize::from(*place)] > 0).collect();
            let place = *which.get(&eligible);
            let backend = BackendId(FIRST.0 + place);
            let moved = if back { classes.restore(backend) } else { classes.drain(backend) };
            prop_assert_eq!(moved.is_some(), gone.contains(&place) == back);
            let Some(moved) = moved else { continue };
            gone.retain(|other| *other != place);
            if !back {
                gone.push(place);
            }
            let after = owners(&classes);
            let mut changed = 0;
            for (low, (old, new)) in before.iter().zip(&after).enumerate() {
                changed += u32::from(old != new);
                let own = if back { *new } else { *old };
                let moves = old == new || own == Some(backend) || new.is_none();
                prop_assert!(moves, "class {low:#x} moved from {old:?} to {new:?}");
                prop_assert!(new.is_none_or(|new| !gone.contains(&(new.0 - FIRST.0))));
                if let Some(home) = base[low].filter(|home| !gone.contains(&(home.0 - FIRST.0))) {
                    prop_assert_eq!(*new, Some(home), "who is there has its own classes");
                }
            }
            prop_assert!((f64::from(changed) / 16384.0 - moved.share).abs() < 1e-9);
            if gone.len() < eligible.len() {
                prop_assert_eq!(moved.after, classes.entries().count());
            }
            // The same in another order, and without any detour.
            let mut other = assign(&weights);
            let mut sorted = gone.clone();
            sorted.sort_unstable_by_key(|place| (place * 7 % 5, *place));
            for place in &sorted {
                other.drain(BackendId(FIRST.0 + place)).unwrap();
            }
            prop_assert_eq!(&other, &classes, "{:?} drained as {:?}", &gone, sorted);
        }
        for place in gone.clone() {
            classes.restore(BackendId(FIRST.0 + place)).unwrap();
        }
        prop_assert_eq!(owners(&classes), base, "all are as at the beginning");
    }

    #[test]
    fn with_any_backends_drained_the_shares_are_as_said(
        weights in weights(), which in prop::collection::vec(any::<prop::sample::Index>(), 1..12),
    ) {
        let eligible: Vec<u16> =
            (0..weights.len() as u16).filter(|place| weights[usize::from(*place)] > 0).collect();
        let mut classes = assign(&weights);
        let drained = which.iter().filter(|which| {
            let place = *which.get(&eligible);
            classes.drain(BackendId(FIRST.0 + place)).is_some()
        });
        let bound = if drained.count() == 1 { 0.1 } else { 0.2 };
        prop_assert!(classes.entries().count() <= Precision::default().entries);
        for share in classes.shares().filter(|share| share.wanted > 0.0) {
            // One of few classes can't have a part of one.
            let off = (share.assigned - share.wanted).abs();
            let whole = if bound > 0.1 { 12.0 } else { 2.0 } / 16384.0;
            prop_assert!(off <= share.wanted * bound + whole, "{share:?} of {weights:?}");
        }
    }
}

#[test]
fn larger_blocks_when_the_entries_run_out_and_no_order_matters() {
    let limited = Precision { entries: 100, ..Precision::default() };
    let drained = |order: &[u16]| {
        let mut classes = assign_with(&[1; 16], limited).unwrap();
        let home = owners(&classes);
        for place in order {
            classes.drain(BackendId(FIRST.0 + place)).unwrap();
        }
        for (was, now) in home.iter().zip(owners(&classes)) {
            let there = was.filter(|was| !order.contains(&(was.0 - FIRST.0)));
            assert!(there.is_none() || there == now, "{there:?}, {now:?}");
        }
        classes
    };
    let one = drained(&[3, 1, 15, 0, 8, 7, 4, 2]);
    assert!(one.entries().count() <= 100, "{}", one.entries().count());
    assert!(one.deviation() < 0.5, "{}", one.deviation());
    assert_eq!(one, drained(&[0, 1, 2, 3, 4, 7, 8, 15]));
}

/// The table in docs/user/stateless.md: weights, how many are drained, entries and
/// deviation at most, among several choices of who is drained.
#[test]
fn entries_and_evenness_are_as_published() {
    let mixed: Vec<u16> = vec![1, 1, 2, 3, 5, 8];
    let rows: [(&[u16], usize, usize, f64); 12] = [
        (&[1; 4], 1, 11, 0.02),
        (&[1; 4], 2, 20, 0.04),
        (&[1; 8], 1, 21, 0.02),
        (&[1; 8], 4, 150, 0.03),
        (&mixed, 1, 25, 0.06),
        (&mixed, 3, 60, 0.06),
        (&[1; 24], 1, 130, 0.04),
        (&[1; 24], 2, 220, 0.04),
        (&[1; 24], 6, 900, 0.05),
        (&[1; 24], 12, 2900, 0.06),
        (&[1; 100], 1, 360, 0.04),
        (&[1; 100], 10, 1400, 0.08),
    ];
    for (weights, drained, most_entries, most_off) in rows {
        let (mut entries, mut off) = (0, 0.0_f64);
        for choice in 0..6 {
            let mut classes = assign(weights);
            let left = |classes: &Classes| classes.shares().filter(|s| s.drained).count() < drained;
            for step in 0_u16.. {
                if !left(&classes) {
                    break;
                }
                let place = (choice * 5 + step * (choice + 3)) % weights.len() as u16;
                let place = if step > 200 { step % weights.len() as u16 } else { place };
                classes.drain(BackendId(FIRST.0 + place));
            }
            (entries, off) = (entries.max(classes.entries().count()), off.max(classes.deviation()));
        }
        let of = weights.len();
        println!("{drained} of {of}: {entries} entries, {:.1} %", off * 100.0);
        assert!(entries <= most_entries && off <= most_off, "{drained} of {of}: {entries}, {off}");
    }
}

#[test]
fn the_papers_two_backends_are_even_and_odd() {
    let classes = assign(&[1, 1]);
    let entries: Vec<Entry> = classes.entries().collect();
    let entry = |value, backend| Entry { value, bits: 1, backend: BackendId(backend) };
    assert!(entries == [entry(0, 7), entry(1, 8)] || entries == [entry(0, 8), entry(1, 7)]);
    assert_eq!((classes.bits(), classes.deviation()), (1, 0.0));
}

#[test]
fn few_entries_make_coarse_shares() {
    let least = |entries| {
        let precision = Precision { entries, ..Precision::default() };
        assign_with(&[1, 1, 1], precision)
    };
    assert!(least(2).is_none(), "three backends need three entries");
    let (coarse, fine) = (least(3).unwrap(), least(100).unwrap());
    assert_eq!(coarse.entries().count(), 3);
    assert!((coarse.deviation() - 0.5).abs() < 1e-9, "{}", coarse.deviation());
    assert!(fine.deviation() <= 0.05 && fine.entries().count() <= 9, "{}", fine.entries().count());
}

#[test]
fn a_thousand_backends_and_a_small_one() {
    let mut weights = vec![1; 1000];
    assert!(assign(&weights).deviation() <= 0.07);
    weights = vec![65535, 1];
    let classes = assign(&weights);
    assert_eq!(owners(&classes).iter().filter(|owner| **owner == Some(BackendId(8))).count(), 1);
}

#[test]
fn a_service_table_steers_clients() {
    let own = ServiceSpec {
        mode: ModeSpec::Stateless(StatelessKey::Source),
        backends: vec![
            backend("10.72.0.1", None, 1),
            backend("10.72.0.2", None, 1),
            backend("10.72.0.3", None, 0),
        ],
        ..spec("10.71.0.100", Some(53), Transport::Udp)
    };
    let name = own.name.clone();
    let other = spec("10.71.0.101", Some(53), Transport::Udp);
    let (specs, mut registry) = ([own, other.clone()], Registry::default());
    let table = ServiceTable::empty([1, 2], None).successor(&specs, &mut registry).unwrap();
    let flow = common::flow(Transport::Udp, "192.0.2.7:5", "10.71.0.100:53");
    let at = |table: &ServiceTable| {
        table.backend(table.lookup(&flow).unwrap().hashed(&flow).unwrap()).unwrap().address
    };
    let first = at(&table);
    let (steered, moved) = table.steer(&name, first, true).unwrap();
    assert_eq!((moved.share, moved.after), (0.5, 1));
    assert_ne!(at(&steered), first);
    assert_eq!(at(&table), first, "the old table is as it was");
    let already = steered.steer(&name, first, true).unwrap_err();
    assert!(already.to_string().contains("is drained already"), "{already}");
    let (again, moved) = steered.steer(&name, first, false).unwrap();
    assert_eq!((at(&again), moved.share), (first, 0.5));
    for (service, address) in
        [("x", "10.72.0.1"), (&other.name, "10.72.0.1"), (&name, "10.72.0.3"), (&name, "10.72.0.9")]
    {
        let error = table.steer(service, ip(address), true).unwrap_err();
        assert_eq!(matches!(error, SteerError::NoBackend { .. }), service != "x", "{error}");
    }
    let again = steered.successor(&specs, &mut registry).unwrap();
    assert_ne!(at(&again), first, "drained with another configuration, too");
}
