//! The utilization metric of the HNLB paper (section IV, algorithm 1).
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use status::LoopReading;

/// The counters of algorithm 1, written by one worker and read by anybody.
#[derive(Debug, Default)]
pub struct LoopCounters {
    reference: AtomicU64,
    operations: AtomicU64,
    packets: AtomicU64,
    bursts: AtomicU64,
    polls: AtomicU64,
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

#[cfg(test)]
mod tests {
    use super::*;

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
