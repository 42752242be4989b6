//! The heaviest of millions of connections in the memory of some thousands.
//!
//! Space-Saving (Metwally, Agrawal, El Abbadi: Efficient computation of frequent
//! and top-k elements in data streams, ICDT 2005): so many counters; a sample
//! of a key without one takes the counter of the least, with its count, which
//! becomes the newcomer's error. Every key with more than 1/counters of all
//! samples has a counter, whatever the order they come in, and no count is too
//! small, or too large by more than its error. A count-min sketch gives such
//! bounds only with some probability and doesn't name the heavy keys;
//! HeavyKeeper (USENIX ATC 2018) does, but may lose a heavy key to chance.
//!
//! Old samples weigh less, by forward decay (Cormode, Shkapenyuk, Srivastava,
//! Xu: Forward decay, ICDE 2009): instead of making all counts smaller as time
//! passes, later samples are made to weigh more, so the order of the counts
//! never changes by itself and the guarantees hold for the decayed counts.
use std::collections::HashMap;

use crate::order::Order;
use crate::{Key, Meter};

/// Weights are brought back to 1 before they grow beyond e to this power.
const LARGEST_POWER: f64 = 200.0;

/// A key with a counter.
#[derive(Clone, Debug)]
pub struct Tracked {
    /// Its samples since it got the counter.
    pub meter: Meter,
    /// When it got the counter.
    pub since_ms: u64,
    /// The decayed count, in weights of the landmark.
    count: f64,
    error: f64,
}

/// Space-Saving with forward decay.
#[derive(Clone, Debug)]
pub struct Sketch {
    counters: usize,
    decay_ms: f64,
    /// The time whose weight is 1.
    landmark_ms: u64,
    tracked: HashMap<Key, Tracked>,
    order: Order,
}

impl Sketch {
    /// With so many counters, at least one. A sample weighs 1/e of what it did
    /// after `decay_ms`.
    #[must_use]
    pub fn new(counters: usize, decay_ms: u64) -> Self {
        Self {
            counters: counters.max(1),
            decay_ms: decay_ms.max(1) as f64,
            landmark_ms: 0,
            tracked: HashMap::new(),
            order: Order::default(),
        }
    }

    /// Takes a sample of `packets` packets. Returns the key that lost its counter.
    pub fn add(&mut self, key: Key, packets: u32, now_ms: u64) -> Option<(Key, Tracked)> {
        let weight = self.weight(now_ms);
        if let Some(tracked) = self.tracked.get_mut(&key) {
            self.order.remove(tracked.count, key);
            tracked.count += weight;
            tracked.meter.add(1, packets, now_ms);
            self.order.insert(tracked.count, key);
            return None;
        }
        let meter = Meter::new(packets, now_ms);
        self.put(key, Tracked { meter, since_ms: now_ms, count: weight, error: 0.0 })
    }

    /// Gives a counter again to `key`, which was measured elsewhere meanwhile.
    /// Returns the key that lost its own.
    pub fn restore(&mut self, key: Key, meter: Meter, now_ms: u64) -> Option<(Key, Tracked)> {
        let weight = self.weight(now_ms);
        self.remove(key);
        let samples = meter.samples() as f64 / meter.span_ms(now_ms).max(1) as f64 * self.decay_ms;
        let count = weight * samples.max(1.0);
        self.put(key, Tracked { meter, since_ms: now_ms, count, error: 0.0 })
    }

    /// Takes the counter from `key`.
    pub fn remove(&mut self, key: Key) -> Option<Tracked> {
        let tracked = self.tracked.remove(&key)?;
        self.order.remove(tracked.count, key);
        Some(tracked)
    }

    /// What is known of `key`.
    #[must_use]
    pub fn get(&self, key: Key) -> Option<&Tracked> {
        self.tracked.get(&key)
    }

    /// The decayed number of samples of `key` and how much it may be too
    /// large; a key without a counter has at most the least count.
    #[must_use]
    pub fn count(&self, key: Key, now_ms: u64) -> Option<(f64, f64)> {
        let scale = self.scale(now_ms);
        self.tracked.get(&key).map(|tracked| (tracked.count * scale, tracked.error * scale))
    }

    /// The decayed number of samples that a key without a counter has at most.
    #[must_use]
    pub fn least(&self, now_ms: u64) -> f64 {
        let least = self.order.first().filter(|_| self.tracked.len() >= self.counters);
        least.map_or(0.0, |(count, _)| count * self.scale(now_ms))
    }

    /// Every key with a counter, and what is measured of it.
    pub fn iter(&self) -> impl Iterator<Item = (Key, &Tracked)> {
        self.tracked.iter().map(|(key, tracked)| (*key, tracked))
    }

    /// Number of keys with a counter.
    #[must_use]
    pub fn len(&self) -> usize {
        self.tracked.len()
    }

    /// Whether no key has a counter.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.tracked.is_empty()
    }

    fn put(&mut self, key: Key, mut tracked: Tracked) -> Option<(Key, Tracked)> {
        let mut lost = None;
        if self.tracked.len() >= self.counters {
            if let Some((least, other)) = self.order.first() {
                tracked.error = least;
                tracked.count += least;
                lost = self.remove(other).map(|tracked| (other, tracked));
            }
        }
        self.order.insert(tracked.count, key);
        self.tracked.insert(key, tracked);
        lost
    }

    /// What a sample weighs at `now_ms`.
    fn weight(&mut self, now_ms: u64) -> f64 {
        if self.power(now_ms) > LARGEST_POWER {
            self.move_landmark(now_ms);
        }
        self.power(now_ms).exp()
    }

    fn power(&self, now_ms: u64) -> f64 {
        now_ms.saturating_sub(self.landmark_ms) as f64 / self.decay_ms
    }

    /// From weights of the landmark to those of `now_ms`.
    fn scale(&self, now_ms: u64) -> f64 {
        (-self.power(now_ms)).exp()
    }

    fn move_landmark(&mut self, now_ms: u64) {
        let scale = self.scale(now_ms);
        self.landmark_ms = now_ms;
        self.order.clear();
        for (key, tracked) in &mut self.tracked {
            tracked.count *= scale;
            tracked.error *= scale;
            self.order.insert(tracked.count, *key);
        }
    }
}
