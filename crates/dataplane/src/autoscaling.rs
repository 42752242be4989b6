//! The load of the busiest worker as an autoscaler follows it: a peak of a minute, and a
//! wish for another load balancer that does not flutter.
use std::collections::VecDeque;

use status::AutoscalingStatus;

/// How long a peak is remembered, in milliseconds.
const REMEMBERED_MS: u64 = 60_000;
/// The peak from which another load balancer is wished for, and below which it is not
/// any more: what one load balancer less would leave to the others must lie between.
const WISHED: f64 = 0.8;
const UNWISHED: f64 = 0.6;

/// The loads of the last minute, one a second.
#[derive(Debug, Default)]
pub(crate) struct Autoscaling {
    /// Times in milliseconds and loads; loads fall from the front to the back, since a
    /// load that is followed by a higher one is the peak of no minute to come.
    peaks: VecDeque<(u64, f64)>,
    last: f64,
    scale_out: bool,
}

impl Autoscaling {
    /// util+ of the busiest worker was `util_plus` in the second before `now_ms`.
    pub(crate) fn note(&mut self, now_ms: u64, util_plus: f64) {
        while self.peaks.back().is_some_and(|(_, load)| *load <= util_plus) {
            self.peaks.pop_back();
        }
        self.peaks.push_back((now_ms, util_plus));
        while self.peaks.front().is_some_and(|(then, _)| then + REMEMBERED_MS <= now_ms) {
            self.peaks.pop_front();
        }
        self.last = util_plus;
        let peak = self.peak();
        self.scale_out = if self.scale_out { peak >= UNWISHED } else { peak >= WISHED };
    }

    fn peak(&self) -> f64 {
        self.peaks.front().map_or(0.0, |(_, load)| *load)
    }

    /// The present state.
    pub(crate) fn status(&self) -> AutoscalingStatus {
        let (peak, scale_out) = (self.peak(), self.scale_out);
        AutoscalingStatus { util_plus: self.last, peak, headroom: 1.0 - peak, scale_out }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_wish_comes_at_once_and_goes_after_a_minute() {
        let mut own = Autoscaling::default();
        let mut at = |second: u64, load| {
            own.note(second * 1000, load);
            own.status()
        };
        assert!(!at(1, 0.79).scale_out);
        assert!(at(2, 0.8).scale_out);
        // A dip of less than a minute is none.
        for second in 3..62 {
            assert!(at(second, 0.1).scale_out, "{second}");
        }
        let after = at(62, 0.1);
        assert!(!after.scale_out);
        assert!((after.peak - 0.1).abs() < 1e-9 && (after.headroom - 0.9).abs() < 1e-9);
        // Between the bounds the wish stays as it is.
        assert!(!at(63, 0.7).scale_out);
        assert!(at(64, 0.9).scale_out);
        assert!((65..200).all(|second| at(second, 0.7).scale_out));
    }

    proptest! {
        /// The peak is the greatest load of the last minute.
        #[test]
        fn the_peak_is_that_of_a_minute(loads in prop::collection::vec(0u8..=100, 1..200)) {
            let mut own = Autoscaling::default();
            for (second, load) in loads.iter().enumerate() {
                own.note(second as u64 * 1000, f64::from(*load));
                let from = (second + 1).saturating_sub(60);
                let greatest = loads[from..=second].iter().max().unwrap();
                prop_assert_eq!(own.status().peak, f64::from(*greatest));
            }
        }
    }
}
