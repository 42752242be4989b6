//! Full NAT's candidates for a local endpoint.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests may")]
use crate::common;

use std::collections::HashSet;

use common::{client, flow, ip, pool};
use flow::BackendId;
use proptest::prelude::*;
use service::Pool;
use wire::Transport;

const V4: &[&str] = &["10.72.0.200", "10.72.0.201", "10.72.0.202"];

fn compiled(addresses: usize, ports: std::ops::RangeInclusive<u16>) -> Pool {
    Pool::new(&pool(&V4[..addresses], ports), ip("10.0.0.1"), [3, 4]).unwrap()
}

proptest! {
    /// As many as there are, at most 64, no two the same, all of the pool.
    #[test]
    fn candidates_are_different_and_of_the_pool(
        addresses in 1_usize..4, first in 1_u16.., more in prop_oneof![0_u16..40, 0_u16..],
        number: u16, backend: u16,
    ) {
        let last = first.saturating_add(more);
        let pool = compiled(addresses, first..=last);
        let found: Vec<_> =
            pool.candidates(&client(number.into()), BackendId(backend)).collect();
        let size = addresses * usize::from(last - first + 1);
        prop_assert_eq!(found.len(), size.min(64));
        prop_assert_eq!(found.iter().collect::<HashSet<_>>().len(), found.len());
        for local in found {
            prop_assert!(pool.contains(local));
            prop_assert!(V4[..addresses].contains(&local.ip().to_string().as_str()));
            prop_assert!((first..=last).contains(&local.port()));
        }
    }
}

#[test]
fn first_candidates_are_spread_evenly() {
    let pool = compiled(2, 1000..=1049);
    let mut counts = [0_u32; 100];
    for number in 0..20_000 {
        let local = pool.candidates(&client(number), BackendId(1)).next().unwrap();
        let address = usize::from(local.ip() == ip(V4[1]));
        counts[address * 50 + usize::from(local.port() - 1000)] += 1;
    }
    // 200 each; the standard deviation is 14.
    assert!(counts.iter().all(|count| (130..270).contains(count)), "{counts:?}");
}

#[test]
fn candidates_follow_from_key_flow_and_backend() {
    let spec = pool(V4, 1024..=65535);
    let list = |key, number, backend| -> Vec<_> {
        let pool = Pool::new(&spec, ip("10.0.0.1"), key).unwrap();
        pool.candidates(&client(number), BackendId(backend)).collect()
    };
    let one = list([1, 2], 1, 1);
    assert_eq!(one, list([1, 2], 1, 1));
    assert_ne!(one, list([1, 3], 1, 1));
    assert_ne!(one, list([1, 2], 2, 1));
    assert_ne!(one, list([1, 2], 1, 2));
}

#[test]
fn families_are_respected() {
    let both = pool(&["10.72.0.200", "fd72::200"], 1..=10);
    let v6 = Pool::new(&both, ip("fd71::100"), [1, 2]).unwrap();
    assert_eq!(v6.addresses(), [ip("fd72::200")]);
    assert_eq!(v6.candidates(&client(1), BackendId(1)).count(), 0);
    let flow = flow(Transport::Udp, "[fd71::1]:5", "[fd71::100]:53");
    assert_eq!(v6.candidates(&flow, BackendId(1)).count(), 10);
    assert!(Pool::new(&pool(V4, 1..=10), ip("fd71::100"), [1, 2]).is_none());
    #[expect(clippy::reversed_empty_ranges, reason = "that is what is tested")]
    let reversed = pool(V4, 10..=1);
    assert!(Pool::new(&reversed, ip("10.0.0.1"), [1, 2]).is_none());
}

#[test]
fn contains_is_exact() {
    let pool = compiled(1, 1000..=1001);
    for (text, expected) in [
        ("10.72.0.200:1000", true),
        ("10.72.0.200:1001", true),
        ("10.72.0.200:999", false),
        ("10.72.0.200:1002", false),
        ("10.72.0.201:1000", false),
        ("[fd72::200]:1000", false),
    ] {
        assert_eq!(pool.contains(common::socket(text)), expected, "{text}");
    }
}
