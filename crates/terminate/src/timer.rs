//! When a peer that does not answer counts as silent (RFC 6298).

/// Bounds of the time; the lower one is Linux'.
const LEAST_MS: u64 = 200;
const MOST_MS: u64 = 60_000;
/// The time before the round trip is known.
const FIRST_MS: u64 = 1_000;
/// How often the time is doubled at most: behind that the peer is not there any more, and
/// smoltcp gives the connection up.
const DOUBLED: u32 = 8;

/// The timer of one connection, in milliseconds.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Timer {
    /// The round trip and how much it varies, both smoothed.
    round_trip: Option<(f64, f64)>,
    /// A number that is measured, and when it was sent.
    measured: Option<(u32, u64)>,
    due_ms: Option<u64>,
    doubled: u32,
}

impl Timer {
    pub(crate) const fn due_ms(&self) -> Option<u64> {
        self.due_ms
    }

    fn patience_ms(&self) -> u64 {
        let own = self.round_trip.map_or(FIRST_MS, |(mean, varies)| (mean + 4.0 * varies) as u64);
        (own.max(LEAST_MS) << self.doubled).min(MOST_MS)
    }

    /// A segment was sent; `new`: the number behind it, if it is for the first time.
    pub(crate) fn sent(&mut self, new: Option<u32>, now_ms: u64) {
        if self.measured.is_none() {
            self.measured = new.map(|number| (number, now_ms));
        }
        if self.due_ms.is_none() {
            self.due_ms = Some(now_ms + self.patience_ms());
        }
    }

    /// Everything before `number` was acknowledged, and nothing is left if `all`.
    pub(crate) fn acknowledged(&mut self, number: u32, all: bool, now_ms: u64) {
        if let Some((measured, sent_ms)) = self.measured
            && number.wrapping_sub(measured) < u32::MAX / 2
        {
            self.measured = None;
            self.sample(now_ms.saturating_sub(sent_ms) as f64);
        }
        self.doubled = 0;
        self.due_ms = (!all).then(|| now_ms + self.patience_ms());
    }

    fn sample(&mut self, took_ms: f64) {
        self.round_trip = Some(match self.round_trip {
            None => (took_ms, took_ms / 2.0),
            Some((mean, varies)) => {
                (0.875 * mean + 0.125 * took_ms, 0.75 * varies + 0.25 * (mean - took_ms).abs())
            }
        });
    }

    /// Segments are sent again: what acknowledges them says nothing of the round trip.
    pub(crate) const fn forget(&mut self) {
        self.measured = None;
    }

    pub(crate) fn is_late(&self, now_ms: u64) -> bool {
        self.due_ms.is_some_and(|due_ms| due_ms <= now_ms)
    }

    /// The peer was late.
    pub(crate) fn wait_longer(&mut self, now_ms: u64) {
        self.doubled += 1;
        self.due_ms = (self.doubled <= DOUBLED).then(|| now_ms + self.patience_ms());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_follows_the_round_trip_and_doubles_in_vain() {
        let mut timer = Timer::default();
        timer.sent(Some(100), 0);
        assert_eq!(timer.due_ms(), Some(1_000), "nothing is known");
        timer.acknowledged(100, true, 400);
        assert_eq!(timer.due_ms(), None);
        timer.sent(Some(200), 500);
        assert_eq!(timer.due_ms(), Some(500 + 400 + 4 * 200));
        assert!(!timer.is_late(1_699) && timer.is_late(1_700));
        timer.wait_longer(1_700);
        assert_eq!(timer.due_ms(), Some(1_700 + 2_400));
        (0..8).for_each(|_| timer.wait_longer(9_000));
        assert_eq!(timer.due_ms(), None, "the peer is gone");
        timer.acknowledged(200, false, 9_100);
        assert!(timer.due_ms().is_some());
    }

    #[test]
    fn what_was_sent_again_is_not_measured() {
        let mut timer = Timer::default();
        timer.sent(Some(100), 0);
        timer.forget();
        timer.acknowledged(100, true, 900);
        assert_eq!(timer.round_trip, None);
        timer.sent(Some(200), 1_000);
        timer.acknowledged(200, true, 1_010);
        timer.sent(None, 1_020);
        assert_eq!(timer.due_ms(), Some(1_220), "200 ms at least");
    }
}
