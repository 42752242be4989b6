//! The sketch against true counts: what Space-Saving promises.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::collections::BTreeMap;

use admission::{Key, Sketch};
use proptest::prelude::*;

const DECAY_MS: u64 = 1_000;

fn key(conn: u32) -> Key {
    Key { conn, generation: 7 }
}

/// Every sample of every key, with its time.
#[derive(Default)]
struct Truth(BTreeMap<u32, Vec<u64>>);

impl Truth {
    fn weight(since: u64, now_ms: u64) -> f64 {
        (-((now_ms - since) as f64) / DECAY_MS as f64).exp()
    }

    fn count(&self, conn: u32, now_ms: u64) -> f64 {
        let times = self.0.get(&conn).into_iter().flatten();
        times.map(|&at| Self::weight(at, now_ms)).sum()
    }

    fn all(&self, now_ms: u64) -> f64 {
        self.0.keys().map(|&conn| self.count(conn, now_ms)).sum()
    }
}

/// Samples of few heavy and many light keys, at growing times, some far apart.
fn samples() -> impl Strategy<Value = Vec<(u32, u64)>> {
    let conn = prop_oneof![3 => 0u32..4, 2 => 0u32..12, 3 => 0u32..400];
    let step = prop_oneof![20 => 0u64..5, 2 => 0u64..300, 1 => Just(150_000u64)];
    prop::collection::vec((conn, step), 1..600)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_count_is_too_small_or_too_large_by_more_than_its_error(
        samples in samples(),
        counters in 1usize..40,
    ) {
        let mut sketch = Sketch::new(counters, DECAY_MS);
        let (mut truth, mut now_ms) = (Truth::default(), 0);
        for (conn, step) in samples {
            now_ms += step;
            let lost = sketch.add(key(conn), 64, now_ms);
            truth.0.entry(conn).or_default().push(now_ms);
            prop_assert!(lost.is_none_or(|(lost, _)| lost != key(conn)));
        }
        prop_assert!(sketch.len() <= counters);
        let (all, slack) = (truth.all(now_ms), 1e-6);
        for &conn in truth.0.keys() {
            let exact = truth.count(conn, now_ms);
            match sketch.count(key(conn), now_ms) {
                Some((count, error)) => {
                    prop_assert!(count + slack >= exact, "{conn}: {count} < {exact}");
                    prop_assert!(count - error <= exact + slack, "{conn}: {count} - {error} > {exact}");
                    prop_assert!(error <= all / counters as f64 + slack, "{error} of {all}");
                }
                None => {
                    prop_assert!(exact <= sketch.least(now_ms) + slack);
                    prop_assert!(exact <= all / counters as f64 + slack, "{conn} was lost: {exact} of {all}");
                }
            }
        }
    }

    #[test]
    fn with_a_counter_for_each_key_every_rate_is_exact(samples in samples()) {
        let mut sketch = Sketch::new(400, DECAY_MS);
        let (mut truth, mut now_ms) = (Truth::default(), 0);
        for (conn, step) in samples {
            now_ms += step;
            sketch.add(key(conn), 64, now_ms);
            truth.0.entry(conn).or_default().push(now_ms);
        }
        for &conn in truth.0.keys() {
            let (count, error) = sketch.count(key(conn), now_ms).unwrap();
            let exact = truth.count(conn, now_ms);
            prop_assert!((count - exact).abs() < 1e-6 && error == 0.0, "{count} for {exact}");
        }
    }
}

#[test]
fn a_key_that_left_and_came_back_keeps_its_rate_and_its_place() {
    let mut sketch = Sketch::new(2, DECAY_MS);
    (0..100).for_each(|n| {
        sketch.add(key(1), 64, n * 10);
    });
    let meter = sketch.remove(key(1)).unwrap().meter;
    sketch.add(key(2), 64, 1_000);
    sketch.add(key(3), 64, 1_001);
    let (lost, _) = sketch.restore(key(1), meter, 1_002).unwrap();
    assert_eq!(lost, key(2), "the least makes room");
    let rate = sketch.get(key(1)).unwrap().meter.rate(1_002);
    assert!((5_000.0..8_000.0).contains(&rate), "{rate}");
    sketch.add(key(4), 64, 1_003);
    assert!(sketch.get(key(1)).is_some() && sketch.get(key(3)).is_none());
}
