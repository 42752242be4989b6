//! How far apart the two cores are: what a cache line takes from one to the
//! other and back. The host of a virtual machine moves cores. Where both share a
//! third-level cache the line is back sooner by a multiple than between distant
//! ones, and every packet goes that way, too: what was measured at one distance
//! can't be compared with what was measured at the other.
use std::sync::atomic::{AtomicU64, Ordering};

use dpdk::{cycles, cycles_per_second};

/// Round trips of one measurement.
const ROUNDS: u64 = 256;
/// Cycles after which a thread stops waiting for the other: about a tenth of a second.
const PATIENCE: u64 = 1 << 28;

/// A cache line that two threads hand to each other.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(crate) struct PingPong(AtomicU64);

impl PingPong {
    /// Throws it to the thread that [`Self::returns`] it; nanoseconds until it
    /// was back, of a quick round trip in four. `None`: the other thread never answered.
    pub(crate) fn throw(&self) -> Option<f64> {
        self.throw_until(cycles().saturating_add(PATIENCE))
    }

    /// The other side of [`Self::throw`].
    pub(crate) fn returns(&self) {
        self.return_until(cycles().saturating_add(PATIENCE));
    }

    fn throw_until(&self, end: u64) -> Option<f64> {
        let mut trips = Vec::with_capacity(ROUNDS as usize);
        for round in 0..ROUNDS {
            let start = cycles();
            self.0.store(2 * round + 1, Ordering::Release);
            self.await_turn(2 * round + 2, end)?;
            trips.push(cycles().wrapping_sub(start));
        }
        trips.sort_unstable();
        let quick = *trips.get(trips.len() / 4)?;
        Some(quick as f64 * 1e9 / cycles_per_second().max(1) as f64)
    }

    fn return_until(&self, end: u64) {
        for round in 0..ROUNDS {
            if self.await_turn(2 * round + 1, end).is_none() {
                return;
            }
            self.0.store(2 * round + 2, Ordering::Release);
        }
    }

    fn await_turn(&self, turn: u64, end: u64) -> Option<()> {
        while self.0.load(Ordering::Acquire) != turn {
            if cycles() > end {
                return None;
            }
            std::hint::spin_loop();
        }
        Some(())
    }
}

/// The shortest distance seen.
#[derive(Debug)]
pub(crate) struct CoreDistance {
    shortest: f64,
}

impl CoreDistance {
    pub(crate) fn new() -> Self {
        Self { shortest: f64::INFINITY }
    }

    /// Takes note of a distance; whether it is a near one. One that isn't known
    /// is as good.
    pub(crate) fn judge(&mut self, ns: Option<f64>) -> bool {
        let Some(ns) = ns else { return true };
        self.shortest = self.shortest.min(ns);
        ns <= self.shortest * crate::report::NEAR
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn near_is_what_is_nearly_the_shortest() {
        let mut core_distance = CoreDistance::new();
        assert!(core_distance.judge(Some(400.0)), "nothing shorter is known");
        assert!(core_distance.judge(Some(100.0)));
        assert!(core_distance.judge(Some(160.0)));
        assert!(!core_distance.judge(Some(400.0)));
        assert!(core_distance.judge(None));
    }

    #[test]
    fn the_ball_comes_back_or_the_wait_ends() {
        let ping = &PingPong::default();
        std::thread::scope(|scope| {
            scope.spawn(|| ping.return_until(u64::MAX));
            assert!(ping.throw_until(u64::MAX).is_some_and(|ns| ns > 0.0));
        });
        assert_eq!(PingPong::default().throw(), None);
        PingPong::default().returns();
    }
}
