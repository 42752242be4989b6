//! The search for the highest rate that a system can take.

/// Doubles the rate as long as it is taken, or halves it until one is; then
/// halves the range between the highest rate that was taken and the lowest
/// that was not, as ratios.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct RateSearch {
    rate: f64,
    /// The highest rate that is tried.
    most: f64,
    taken: Option<f64>,
    refused: Option<f64>,
    /// Rates that may be tried still.
    left: usize,
}

/// The ratio of the refused rate to the taken one at which the search ends.
const NARROW: f64 = 1.05;

impl RateSearch {
    /// A search from `start` on that tries at most `tries` rates.
    pub(crate) fn new(start: f64, most: f64, tries: usize) -> Self {
        Self { rate: start.min(most), most, taken: None, refused: None, left: tries }
    }

    /// The rate to be tried.
    pub(crate) fn next(&self) -> Option<f64> {
        let narrow = match (self.taken, self.refused) {
            (Some(taken), Some(refused)) => refused / taken < NARROW,
            (Some(taken), None) => taken >= self.most,
            _ => false,
        };
        (self.left > 0 && !narrow).then_some(self.rate)
    }

    /// Whether the rate was taken.
    pub(crate) fn told(&mut self, taken: bool) {
        self.left = self.left.saturating_sub(1);
        let side = if taken { &mut self.taken } else { &mut self.refused };
        *side = Some(self.rate);
        self.rate = match (self.taken, self.refused) {
            (Some(taken), Some(refused)) => (taken * refused).sqrt(),
            (Some(taken), None) => (taken * 2.0).min(self.most),
            (None, Some(refused)) => refused / 2.0,
            (None, None) => self.rate,
        };
    }

    /// Whether nothing was refused.
    pub(crate) const fn reached_the_end(&self) -> bool {
        self.refused.is_none()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The highest rate that was taken of a system that takes `can`.
    fn found(mut search: RateSearch, can: f64) -> (Option<f64>, bool) {
        let mut best = None;
        while let Some(rate) = search.next() {
            search.told(rate <= can);
            if rate <= can {
                best = Some(rate);
            }
        }
        (best, search.reached_the_end())
    }

    #[test]
    fn a_search_ends() {
        assert_eq!(found(RateSearch::new(50.0, 800.0, 9), f64::INFINITY), (Some(800.0), true));
        assert_eq!(found(RateSearch::new(50.0, 800.0, 3), 0.0), (None, false));
        assert_eq!(found(RateSearch::new(50.0, 800.0, 0), 60.0), (None, true));
    }

    proptest! {
        #[test]
        fn the_highest_rate_is_found(can in 1.0..700.0_f64) {
            let (best, end) = found(RateSearch::new(50.0, 800.0, 20), can);
            let best = best.unwrap();
            prop_assert!(best <= can && best > can / 1.06 && !end, "{best} of {can}");
        }
    }
}
