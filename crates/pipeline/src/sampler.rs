//! Chooses one packet in so many.

/// Takes packets at random distances, which are alike in every run. Regular distances
/// would always meet the same few of some connections that send in turn.
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
        self.draw(one_in);
        true
    }

    /// The next packet taken among the places `from` to `end` of a burst: the answers
    /// of [`Self::takes`] for one place after the other, at once.
    #[inline]
    pub(crate) fn next(&mut self, from: usize, end: usize, one_in: u32) -> Option<usize> {
        let (left, packets) = (self.left as usize, end.saturating_sub(from));
        if one_in == 0 || left >= packets {
            self.left -= if one_in == 0 { 0 } else { packets as u32 };
            return None;
        }
        self.draw(one_in);
        Some(from + left)
    }

    /// Knuth's MMIX generator; distances up to twice the mean.
    fn draw(&mut self, one_in: u32) {
        self.state = self
            .state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        let range = one_in.saturating_mul(2).saturating_sub(1).max(1);
        self.left = (self.state >> 33) as u32 % range;
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
        assert_eq!(sampler.next(0, 64, 0), None);
        let mut every = Sampler::new(1);
        assert!((0..9).all(|_| every.takes(1)));
    }

    #[test]
    fn whole_bursts_take_the_same_packets() {
        let (mut single, mut bursts) = (Sampler::new(5), Sampler::new(5));
        for (length, one_in) in (0..65).cycle().zip([1, 2, 7, 64].into_iter().cycle()).take(5000) {
            let expected: Vec<_> = (0..length).filter(|_| single.takes(one_in)).collect();
            let (mut found, mut from) = (Vec::new(), 0);
            while let Some(at) = bursts.next(from, length, one_in) {
                found.push(at);
                from = at + 1;
            }
            assert_eq!(found, expected);
        }
    }
}
