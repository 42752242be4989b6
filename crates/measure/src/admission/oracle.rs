//! One that is told every rate, and has the same card.
use admission::Budget;

use super::card::Card;
use super::policy::Player;
use super::population::Population;

/// Knows the rates at every moment, and inserts the heaviest first, no faster
/// than the card takes it: what no policy can do better. Its evictions are
/// immediate.
pub(super) struct Told {
    budget: Budget,
    /// The next rank to look at, and the one behind the lightest to keep.
    next: u32,
    evict_from: u32,
}

impl Told {
    pub(super) fn new(insertions_per_second: u32) -> Self {
        Self { budget: Budget::new(Some(insertions_per_second)), next: 0, evict_from: 0 }
    }
}

impl Player for Told {
    fn changed(&mut self, population: &Population) {
        self.next = 0;
        self.evict_from = population.len();
    }

    fn packet(&mut self, _: u32, _: u64) {}

    fn tick(&mut self, now_ms: u64, card: &mut Card, population: &Population) {
        for _ in 0..self.budget.available(now_ms) {
            while card.has(population.of_rank(self.next)) {
                self.next += 1;
            }
            if self.next as usize >= card.entries {
                return;
            }
            while card.is_full() && self.evict_from > 0 {
                self.evict_from -= 1;
                card.remove(population.of_rank(self.evict_from));
            }
            card.insert(population.of_rank(self.next));
            self.budget.asked(None);
        }
    }

    fn counts(&self) -> (u64, u64) {
        (0, 0)
    }
}
