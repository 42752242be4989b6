//! What was offered while both threads had their cores: the rest of the time
//! says nothing of a rate.

/// Milliseconds of a slice.
const SLICE_MS: u64 = 1;

/// Time in slices, of which only those count in which nobody was away.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct UndisturbedRate {
    slice: u64,
    began: u64,
    /// What had been offered when the slice began, and how long both threads
    /// had been away by then.
    before: (u64, u64),
    /// Cycles of all slices.
    all: u64,
    /// Cycles of those that count, and the packets offered in them.
    cycles: u64,
    packets: u64,
}

impl UndisturbedRate {
    /// From `now` on, a thousandth of a second being `per_ms` cycles.
    pub(crate) fn new(now: u64, per_ms: u64) -> Self {
        Self { slice: SLICE_MS * per_ms.max(1), began: now, ..Self::default() }
    }

    /// Whether the slice is over at `now`: then [`Self::slice`] is due.
    #[inline]
    pub(crate) const fn is_due(&self, now: u64) -> bool {
        now.wrapping_sub(self.began) >= self.slice
    }

    /// A slice ends: `offered` packets so far, and cycles `away` of both threads.
    #[cold]
    pub(crate) fn slice(&mut self, now: u64, offered: u64, away: u64) {
        let cycles = now.wrapping_sub(self.began);
        let (packets_before, away_before) = self.before;
        self.all += cycles;
        if away == away_before {
            self.cycles += cycles;
            self.packets += offered.saturating_sub(packets_before);
        }
        self.began = now;
        self.before = (offered, away);
    }

    /// Packets per second; `None` if both were never there.
    pub(crate) fn rate(&self, per_second: u64) -> Option<f64> {
        let seconds = self.cycles as f64 / per_second.max(1) as f64;
        (self.cycles > 0).then(|| self.packets as f64 / seconds)
    }

    /// The share of the time that counts.
    pub(crate) fn share(&self) -> f64 {
        self.cycles as f64 / self.all.max(1) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_is_of_the_time_in_which_both_were_there() {
        let mut undisturbed = UndisturbedRate::new(0, 1000);
        assert!(!undisturbed.is_due(999) && undisturbed.is_due(1000));
        assert_eq!(undisturbed.rate(1_000_000), None);
        undisturbed.slice(1000, 50, 0);
        // Somebody is away, and then serves what was waiting.
        undisturbed.slice(2000, 50, 700);
        undisturbed.slice(3100, 400, 900);
        undisturbed.slice(4000, 455, 900);
        assert_eq!(undisturbed.rate(1_000_000), Some((50.0 + 55.0) / 1900e-6));
        assert!((undisturbed.share() - 0.475).abs() < 1e-9);
        // What is taken back was never offered.
        undisturbed.slice(5000, 440, 900);
        assert_eq!(undisturbed.rate(1_000_000), Some(105.0 / 2900e-6));
    }
}
