//! How many rules a card may be asked to create in a second: the configured number,
//! fewer if the card is slow, fewer if it refuses.

/// The part of the time of the core that programs the card which creations may take:
/// the rest is for destroying rules, ageing and everything else.
const SHARE: f64 = 0.25;

/// A card that refuses is still asked this often a second.
const LEAST: f64 = 10.0;

/// Tokens that may be saved up, in seconds of the budget: a moment's pause of
/// the caller, not a burst that stalls the card.
const SAVED: f64 = 0.01;

/// The weight of a new cost.
const NEW_COST: f64 = 1.0 / 16.0;

/// How often the card's refusals are examined, in milliseconds.
const LOOK_MS: u64 = 100;

/// A card that has refused more than one creation in so many is asked half as often;
/// any other a quarter more often. A refusal now and then says nothing about the
/// rate.
const TOO_MANY: u64 = 8;

/// A token bucket whose rate follows the card: "per-connection updates at a
/// high rate can stall a NIC", and that shows as refusals and as slow calls.
#[derive(Clone, Debug)]
pub struct Budget {
    most: f64,
    allowed: f64,
    cost_ns: Option<f64>,
    tokens: f64,
    filled_ms: Option<u64>,
    looked_ms: u64,
    asked: u64,
    refused: u64,
}

impl Budget {
    /// A budget of at most so many creations a second; `None`: no limit.
    #[must_use]
    pub fn new(per_second: Option<u32>) -> Self {
        let most = per_second.map_or(f64::INFINITY, f64::from);
        Self {
            most,
            allowed: most,
            cost_ns: None,
            tokens: 0.0,
            filled_ms: None,
            looked_ms: 0,
            asked: 0,
            refused: 0,
        }
    }

    /// Creations a second at present.
    #[must_use]
    pub fn per_second(&self) -> f64 {
        let affordable = self.cost_ns.map_or(f64::INFINITY, |cost| SHARE * 1e9 / cost);
        self.allowed.min(affordable).max(LEAST.min(self.most))
    }

    /// The time that one creation takes, in nanoseconds; `None`: not measured.
    #[must_use]
    pub fn cost_ns(&self) -> Option<f64> {
        self.cost_ns
    }

    /// Creations that may be made at `now_ms`.
    pub fn available(&mut self, now_ms: u64) -> usize {
        self.look(now_ms);
        let rate = self.per_second();
        if rate.is_infinite() {
            return usize::MAX;
        }
        let passed = now_ms.saturating_sub(self.filled_ms.unwrap_or(now_ms));
        self.filled_ms = Some(now_ms);
        let saved = (rate * SAVED).max(1.0);
        self.tokens = (self.tokens + rate * passed as f64 / 1000.0).min(saved);
        self.tokens as usize
    }

    /// Notes that the card was asked, which took `cost_ns`; `None`: the time is not
    /// measured.
    pub fn asked(&mut self, cost_ns: Option<u64>) {
        self.asked += 1;
        self.tokens = (self.tokens - 1.0).max(0.0);
        if let Some(cost) = cost_ns {
            // Even the fastest creation takes some time.
            let cost = cost.max(1) as f64;
            self.cost_ns =
                Some(self.cost_ns.map_or(cost, |before| before + (cost - before) * NEW_COST));
        }
    }

    /// Notes a refusal, though the card is not full and can make such rules.
    pub fn refused(&mut self) {
        self.refused += 1;
    }

    fn look(&mut self, now_ms: u64) {
        if now_ms < self.looked_ms.saturating_add(LOOK_MS) {
            return;
        }
        self.looked_ms = now_ms;
        let (asked, refused) = (std::mem::take(&mut self.asked), std::mem::take(&mut self.refused));
        if refused * TOO_MANY > asked {
            let from = if self.allowed.is_finite() { self.allowed } else { self.known() };
            self.allowed = (from / 2.0).max(LEAST.min(self.most));
        } else if asked > 0 {
            self.allowed = (self.allowed * 1.25).min(self.most);
        }
    }

    /// Where an unlimited budget starts to become smaller.
    fn known(&self) -> f64 {
        self.cost_ns.map_or(1e6, |cost| SHARE * 1e9 / cost)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Creations in so many milliseconds, a tick each, of a card that takes `cost_ns`.
    fn run(budget: &mut Budget, from_ms: u64, ms: u64, cost_ns: Option<u64>) -> usize {
        let mut made = 0;
        for now in from_ms..from_ms + ms {
            for _ in 0..budget.available(now).min(64) {
                budget.asked(cost_ns);
                made += 1;
            }
        }
        made
    }

    #[test]
    fn a_second_has_no_more_than_the_budget() {
        for per_second in [7, 1_000, 3_333, 20_000] {
            let mut budget = Budget::new(Some(per_second));
            let made = run(&mut budget, 5, 10_000, None);
            let most = per_second as usize * 10;
            assert!(made <= most && made + most / 1_000 + 10 >= most, "{per_second}: {made}");
        }
        assert_eq!(Budget::new(None).available(0), usize::MAX);
    }

    #[test]
    fn time_that_has_passed_unused_is_not_made_up_for() {
        let mut budget = Budget::new(Some(1_000));
        budget.available(0);
        assert_eq!(budget.available(60_000), 10);
    }

    #[test]
    fn a_slow_card_is_asked_less() {
        let mut budget = Budget::new(Some(20_000));
        run(&mut budget, 0, 1_000, Some(305_000));
        let made = run(&mut budget, 1_000, 1_000, Some(305_000));
        assert!((800..840).contains(&made), "a quarter of a second at 305 us each, not {made}");
        run(&mut budget, 2_000, 3_000, Some(1_000));
        assert_eq!(budget.per_second(), 20_000.0, "fast again");
    }

    #[test]
    fn a_card_that_refuses_is_asked_less_until_it_takes_rules_again() {
        let mut budget = Budget::new(Some(1_000));
        let mut refuse = |every: usize, from_ms: u64, ms: u64| {
            let mut asked = 0;
            for now in from_ms..from_ms + ms {
                for _ in 0..budget.available(now) {
                    budget.asked(None);
                    asked += 1;
                    if asked % every == 0 {
                        budget.refused();
                    }
                }
            }
            budget.per_second()
        };
        assert_eq!(refuse(100, 0, 2_000), 1_000.0, "one in a hundred is no sign");
        assert_eq!(refuse(1, 2_000, 5_000), LEAST);
        assert_eq!(refuse(usize::MAX, 7_000, 10_000), 1_000.0, "it has recovered");
    }

    /// A refusal is judged beside the creations of the whole interval, not beside those
    /// of its own turn.
    #[test]
    fn refusals_are_examined_once_an_interval() {
        let mut budget = Budget::new(Some(1_000));
        for now in 1_000..1_050 {
            budget.available(now);
            budget.asked(None);
        }
        budget.refused();
        budget.available(1_050);
        assert_eq!(budget.per_second(), 1_000.0, "the interval is not over");
        budget.available(1_000 + LOOK_MS);
        assert_eq!(budget.per_second(), 1_000.0, "one of fifty");
        budget.asked(None);
        budget.refused();
        budget.available(1_000 + 2 * LOOK_MS - 1);
        assert_eq!(budget.per_second(), 1_000.0, "the second interval is not over");
        budget.available(1_000 + 2 * LOOK_MS);
        assert_eq!(budget.per_second(), 500.0, "one of one");
    }
}
