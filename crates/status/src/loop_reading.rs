//! What the counters of a worker's loop say, and util and util+ from them (HNLB
//! paper, section IV, algorithm 1).
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The largest mean burst that several queues reach without loss, as a part of
/// what one poll can return: 16 of 32 (section IV).
const SEVERAL_QUEUES: f64 = 0.5;

/// What the counters said at one moment, or the difference of two moments.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
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
}
