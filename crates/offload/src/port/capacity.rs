//! How many rules the card takes: learnt from its refusals, not believed from
//! a datasheet, because a table is shared with receive buffers, with other
//! programs and with the driver's own rules.
use crate::backoff::{Backoff, Waits};

/// A full card is asked again after 1 s, then at growing intervals of up to 60 s:
/// other programs' rules may have gone without our knowing.
const ASK_AGAIN: Waits = Waits::new(1_000, 60_000);

/// After a refusal at `n` rules, the card is asked again once 1/16 of them are
/// gone, so that a full table under churn is not asked for every single rule.
const HYSTERESIS_SHARE: usize = 16;

/// A card that was full is tried with more rules than it held then after this time.
const MORE_AFTER_MS: u64 = 60_000;

/// The level of one port's match table.
#[derive(Debug)]
pub(crate) struct Capacity {
    rules: usize,
    learnt: Option<usize>,
    full: Option<usize>,
    again: Backoff,
    /// When the card last refused for lack of room.
    refused_ms: u64,
}

impl Default for Capacity {
    fn default() -> Self {
        Self { rules: 0, learnt: None, full: None, again: Backoff::new(ASK_AGAIN), refused_ms: 0 }
    }
}

impl Capacity {
    /// Whether the card may be asked for one more rule at `now_ms`.
    #[must_use]
    pub(crate) fn may_ask(&self, now_ms: u64) -> bool {
        match self.full {
            None => true,
            Some(level) => {
                let room = (level / HYSTERESIS_SHARE).max(1);
                (level > 0 && self.rules + room <= level) || self.again.may_try(now_ms)
            }
        }
    }

    /// A rule was created.
    pub(crate) fn created(&mut self) {
        self.rules += 1;
        self.full = None;
        self.again.worked();
        if self.learnt.is_some_and(|level| level < self.rules) {
            self.learnt = Some(self.rules);
        }
    }

    /// A rule was destroyed.
    pub(crate) fn destroyed(&mut self) {
        self.rules = self.rules.saturating_sub(1);
    }

    /// The card had no room (ENOSPC) for one more rule.
    pub(crate) fn refused(&mut self, now_ms: u64) {
        self.learnt = Some(self.rules);
        self.full = Some(self.rules);
        self.again.failed(now_ms);
        self.refused_ms = now_ms;
    }

    /// Rules that the card holds, as far as is known; `None`: it has never been
    /// full. A while after it last was, a few more than that, to find out.
    #[must_use]
    pub(crate) fn limit(&self, now_ms: u64) -> Option<usize> {
        let learnt = self.learnt?;
        let again = now_ms >= self.refused_ms.saturating_add(MORE_AFTER_MS);
        Some(if again { learnt + (learnt / HYSTERESIS_SHARE).max(1) } else { learnt })
    }

    /// Rules in the card, those that are to be destroyed included.
    #[must_use]
    pub(crate) fn rules(&self) -> usize {
        self.rules
    }

    /// The number of our rules at which the card last had no room; `None`: it
    /// has never been full.
    #[must_use]
    pub(crate) fn learnt(&self) -> Option<usize> {
        self.learnt
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filled(card: usize) -> Capacity {
        let mut capacity = Capacity::default();
        (0..card).for_each(|_| capacity.created());
        capacity.refused(0);
        capacity
    }

    #[test]
    fn a_full_card_is_asked_again_when_a_sixteenth_is_gone() {
        let mut capacity = filled(160);
        assert_eq!((capacity.learnt(), capacity.rules()), (Some(160), 160));
        for _ in 0..10 {
            assert!(!capacity.may_ask(1));
            capacity.destroyed();
        }
        assert!(capacity.may_ask(1));
        capacity.created();
        assert!(capacity.may_ask(1), "not full any more, until the card says so");
    }

    #[test]
    fn a_full_card_is_asked_again_after_ever_longer_waits() {
        let mut capacity = filled(4);
        assert!(!capacity.may_ask(999) && capacity.may_ask(1_000));
        capacity.refused(1_000);
        assert!(!capacity.may_ask(2_999) && capacity.may_ask(3_000));
        let mut nothing_fits = filled(0);
        assert!(!nothing_fits.may_ask(999) && nothing_fits.may_ask(1_000));
        nothing_fits.created();
        assert_eq!(nothing_fits.learnt(), Some(1), "it has learnt better");
    }

    #[test]
    fn a_level_learnt_too_low_is_corrected_both_ways() {
        let mut capacity = filled(4);
        capacity.created();
        assert_eq!(capacity.learnt(), Some(5));
        (0..3).for_each(|_| capacity.destroyed());
        capacity.refused(0);
        assert_eq!(capacity.learnt(), Some(2));
    }
}
