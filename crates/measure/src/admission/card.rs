//! An emulated card: so many entries, so many insertions a second.
use super::population::Population;

/// From the decision to evict until the entry is free: the rule is destroyed
/// with the next tick, the card has 10 ms to let go, queues are emptied.
pub(super) const SETTLE_MS: u64 = 12;

/// Which connections have a rule, and what share of the packets they are.
#[derive(Debug)]
pub(super) struct Card {
    pub(super) entries: usize,
    /// In no order.
    rules: Vec<u32>,
    /// By connection: its place among the rules.
    places: Vec<u32>,
}

/// The place of a connection without a rule.
const NONE: u32 = u32::MAX;

impl Card {
    pub(super) fn new(entries: usize, connections: u32) -> Self {
        Self { entries, rules: Vec::new(), places: vec![NONE; connections as usize] }
    }

    pub(super) fn has(&self, conn: u32) -> bool {
        self.places.get(conn as usize).is_some_and(|&place| place != NONE)
    }

    pub(super) fn is_full(&self) -> bool {
        self.rules.len() >= self.entries
    }

    pub(super) fn rules(&self) -> usize {
        self.rules.len()
    }

    /// Whether there was room.
    pub(super) fn insert(&mut self, conn: u32) -> bool {
        if self.is_full() {
            return false;
        }
        if let Some(place) = self.places.get_mut(conn as usize).filter(|place| **place == NONE) {
            *place = self.rules.len() as u32;
            self.rules.push(conn);
        }
        true
    }

    pub(super) fn remove(&mut self, conn: u32) {
        let Some(place) = self.places.get_mut(conn as usize).filter(|place| **place != NONE) else {
            return;
        };
        let place = std::mem::replace(place, NONE);
        self.rules.swap_remove(place as usize);
        let moved =
            self.rules.get(place as usize).and_then(|&conn| self.places.get_mut(conn as usize));
        if let Some(moved) = moved {
            *moved = place;
        }
    }

    /// The share of all packets that is matched.
    pub(super) fn share(&self, population: &Population) -> f64 {
        self.rules.iter().map(|&conn| population.share_of(conn)).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_come_and_go() {
        let population = Population::new(10, 1.0, 1).unwrap();
        let mut card = Card::new(3, 10);
        assert!([4, 7, 4, 1].into_iter().all(|conn| card.insert(conn)) && card.is_full());
        assert!(!card.insert(2));
        card.remove(4);
        card.remove(4);
        assert_eq!((card.rules(), card.has(4), card.has(7), card.has(1)), (2, false, true, true));
        assert!(card.insert(2) && card.has(2));
        card.remove(1);
        let share = population.share_of(2) + population.share_of(7);
        assert!((card.share(&population) - share).abs() < 1e-12);
    }
}
