//! Intervals that differ from one another, so that checks of many backends do not
//! come in bursts.

/// A sequence of pseudo-random numbers (SplitMix64, Steele and others, 2014).
#[derive(Clone, Debug)]
pub(crate) struct Jitter(u64);

impl Jitter {
    pub(crate) const fn new(seed: u64) -> Self {
        Self(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `bound`; 0 if that is 0.
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.next().checked_rem(bound).unwrap_or(0)
    }

    /// `length_ms` give or take `percent` percent of it.
    pub(crate) fn around(&mut self, length_ms: u64, percent: u8) -> u64 {
        let most = length_ms.saturating_mul(u64::from(percent)) / 100;
        (length_ms - most.min(length_ms)).saturating_add(self.below(most.saturating_mul(2) + 1))
    }
}
