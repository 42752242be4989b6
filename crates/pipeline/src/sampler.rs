//! Chooses one packet in so many.

/// Takes packets at random distances, the same in every run: regular ones
/// would always meet the same of a few connections that send in turn.
#[derive(Clone, Debug)]
pub(crate) struct Sampler {
    left: u32,
    state: u64,
}

impl Sampler {
    pub(crate) const fn new(seed: u64) -> Self {
        Self { left: 0, state: seed }
    }

    /// Whether this packet is one of the one in `one_in` that are taken; 0: none.
    #[inline]
    pub(crate) fn takes(&mut self, one_in: u32) -> bool {
        if one_in == 0 {
            return false;
        }
        if self.left > 0 {
            self.left -= 1;
            return false;
        }
        // Knuth's MMIX generator; distances up to twice the mean.
        self.state = self
            .state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        let range = one_in.saturating_mul(2).saturating_sub(1).max(1);
        self.left = (self.state >> 33) as u32 % range;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn takes_the_share_and_from_everybody() {
        let mut sampler = Sampler::new(1);
        let mut taken = [0; 4];
        for packet in 0..64_000 {
            taken[packet % 4] += usize::from(sampler.takes(64));
        }
        assert!((900..1100).contains(&taken.iter().sum::<usize>()), "{taken:?}");
        assert!(taken.iter().all(|&share| share > 150), "{taken:?}");
        assert!(!sampler.takes(0));
        let mut every = Sampler::new(1);
        assert!((0..9).all(|_| every.takes(1)));
    }
}
