//! The utilization metric of the HNLB paper (section IV, algorithm 1).
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The largest mean burst that several queues reach without loss, as a part of
/// what one poll can return: 16 of 32 (section IV).
const SEVERAL_QUEUES: f64 = 0.5;

/// The counters of algorithm 1, written by one worker and read by anybody.
#[derive(Debug, Default)]
pub struct LoopCounters {
    reference: AtomicU64,
    operations: AtomicU64,
    packets: AtomicU64,
    bursts: AtomicU64,
    polls: AtomicU64,
}

/// What the counters said at one moment, or the difference of two moments.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(default)]
pub struct LoopReading {
    /// REF: cycles of all iterations of the loop.
    pub ref_cycles: u64,
    /// OPS: cycles of the iterations that found packets.
    pub ops_cycles: u64,
    /// np: packets received.
    pub packets: u64,
    /// nb: polls that returned packets.
    pub bursts: u64,
    /// All polls, empty ones included.
    pub polls: u64,
}

impl LoopCounters {
    /// Lines 2 to 4 of algorithm 1: another iteration, `cycles` after the last.
    #[inline]
    pub fn iteration(&self, cycles: u64) {
        add(&self.reference, cycles);
    }

    /// A poll, and lines 6 to 14 when it returned packets: `cycles` were spent on them.
    #[inline]
    pub fn polled(&self, packets: usize, cycles: u64) {
        add(&self.polls, 1);
        if packets > 0 {
            add(&self.packets, packets as u64);
            add(&self.bursts, 1);
            add(&self.operations, cycles);
        }
    }

    /// The counters now.
    #[must_use]
    pub fn read(&self) -> LoopReading {
        LoopReading {
            ref_cycles: self.reference.load(Ordering::Relaxed),
            ops_cycles: self.operations.load(Ordering::Relaxed),
            packets: self.packets.load(Ordering::Relaxed),
            bursts: self.bursts.load(Ordering::Relaxed),
            polls: self.polls.load(Ordering::Relaxed),
        }
    }
}

/// Algorithm 1 around the polls of one worker: it reads the cycle counter where
/// the paper does.
#[derive(Debug)]
pub struct LoopMeter {
    counters: Arc<LoopCounters>,
    last: u64,
}

impl LoopMeter {
    /// Counts in `counters` from the cycle `now` on.
    #[must_use]
    pub fn new(counters: Arc<LoopCounters>, now: u64) -> Self {
        Self { counters, last: now }
    }

    /// One iteration. `poll` receives and processes packets and returns how
    /// many; it is told the cycle at which the iteration began. `cycles` reads
    /// the cycle counter.
    #[inline]
    pub fn iterate(&mut self, cycles: impl Fn() -> u64, poll: impl FnOnce(u64) -> usize) -> usize {
        let before = cycles();
        self.counters.iteration(before.wrapping_sub(self.last));
        self.last = before;
        let packets = poll(before);
        let spent = if packets > 0 { cycles().wrapping_sub(before) } else { 0 };
        self.counters.polled(packets, spent);
        packets
    }

    /// The cycle at which the last iteration began.
    #[must_use]
    pub const fn last(&self) -> u64 {
        self.last
    }
}

/// One worker writes, so load and store need not be one operation.
#[inline]
fn add(counter: &AtomicU64, n: u64) {
    counter.store(counter.load(Ordering::Relaxed).wrapping_add(n), Ordering::Relaxed);
}

impl LoopReading {
    /// What was counted since `earlier`.
    #[must_use]
    pub const fn since(self, earlier: Self) -> Self {
        Self {
            ref_cycles: self.ref_cycles.wrapping_sub(earlier.ref_cycles),
            ops_cycles: self.ops_cycles.wrapping_sub(earlier.ops_cycles),
            packets: self.packets.wrapping_sub(earlier.packets),
            bursts: self.bursts.wrapping_sub(earlier.bursts),
            polls: self.polls.wrapping_sub(earlier.polls),
        }
    }

    /// util = OPS / REF, from 0 to 1.
    #[must_use]
    pub fn util(&self) -> f64 {
        if self.ref_cycles == 0 {
            return 0.0;
        }
        (self.ops_cycles as f64 / self.ref_cycles as f64).min(1.0)
    }

    /// util+ = util * (1 + np / (nb * B)) / 2 for one queue, with the factor
    /// bounded by 1 for several; from 0 to 1. `burst` is what one poll can
    /// return: B for one queue, twice B for several.
    #[must_use]
    pub fn util_plus(&self, queues: usize, burst: usize) -> f64 {
        if self.bursts == 0 || burst == 0 {
            return 0.0;
        }
        let mean = self.packets as f64 / self.bursts as f64;
        let full = burst as f64 * if queues > 1 { SEVERAL_QUEUES } else { 1.0 };
        let weight = f64::midpoint(1.0, mean / full);
        self.util() * if queues > 1 { weight.min(1.0) } else { weight }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reading(ref_cycles: u64, ops_cycles: u64, packets: u64, bursts: u64) -> LoopReading {
        LoopReading { ref_cycles, ops_cycles, packets, bursts, polls: bursts }
    }

    #[test]
    fn no_traffic_is_zero_and_full_bursts_are_one() {
        assert_eq!(reading(1000, 0, 0, 0).util_plus(1, 32), 0.0);
        assert_eq!(reading(1000, 1000, 320, 10).util_plus(1, 32), 1.0);
        assert_eq!(reading(1000, 1000, 160, 10).util_plus(4, 32), 1.0);
        assert_eq!(reading(1000, 1000, 320, 10).util_plus(4, 32), 1.0, "bounded by min(1, …)");
    }

    #[test]
    fn small_bursts_weigh_half() {
        let sixteenth = reading(1000, 1000, 10, 10);
        assert!((sixteenth.util_plus(1, 32) - (1.0 + 1.0 / 32.0) / 2.0).abs() < 1e-12);
        assert_eq!(sixteenth.util(), 1.0);
        assert_eq!(reading(1000, 1000, 80, 10).util_plus(1, 8), 1.0, "8 is all that a poll gives");
    }

    #[test]
    fn counts_as_algorithm_1() {
        let counters = LoopCounters::default();
        counters.iteration(100);
        counters.polled(0, 40);
        counters.iteration(100);
        counters.polled(8, 60);
        let read = counters.read();
        assert_eq!(
            read,
            LoopReading { ref_cycles: 200, ops_cycles: 60, packets: 8, bursts: 1, polls: 2 }
        );
        assert!((read.util() - 0.3).abs() < 1e-12);
    }
}
