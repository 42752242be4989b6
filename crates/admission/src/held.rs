//! Connections that have an entry: their rates, and which one is worth least.
use std::collections::BTreeMap;
use std::ops::Bound;

use crate::order::Order;
use crate::{Key, Meter};

/// The stage of one connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    /// The connection is chosen; its rules are not in the card yet.
    InLine,
    /// Its rules are in the card.
    Hardware,
    /// Its rules are being taken back.
    Leaving,
}

/// One connection with an entry.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub(crate) meter: Meter,
    pub(crate) stage: Stage,
    /// When it came to this stage.
    pub(crate) since_ms: u64,
    /// Its number in the order of the worth; `None`: it is not in that order.
    worth: Option<f64>,
}

/// All connections with an entry.
#[derive(Clone, Debug, Default)]
pub(crate) struct Held {
    entries: BTreeMap<Key, Entry>,
    /// Connections that may be evicted, by the most that they can be worth.
    by_worth: Order,
    leaving: usize,
    /// The last one whose worth was brought up to date in turn.
    refreshed: Option<Key>,
}

impl Held {
    /// The number of connections in line, in the card and leaving it.
    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    /// The number of connections that are not leaving.
    pub(crate) fn staying(&self) -> usize {
        self.entries.len() - self.leaving
    }

    pub(crate) fn get(&self, key: Key) -> Option<&Entry> {
        self.entries.get(&key)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (Key, &Entry)> {
        self.entries.iter().map(|(key, entry)| (*key, entry))
    }

    /// Takes a sample of `key`; returns whether `key` has an entry.
    pub(crate) fn add(&mut self, key: Key, packets: u32, now_ms: u64) -> bool {
        let entry = self.entries.get_mut(&key);
        entry.map(|entry| entry.meter.add(1, packets, now_ms)).is_some()
    }

    pub(crate) fn insert(&mut self, key: Key, meter: Meter, now_ms: u64) {
        let entry = Entry { meter, stage: Stage::InLine, since_ms: now_ms, worth: None };
        self.entries.insert(key, entry);
    }

    /// Brings `key` to `stage`, unless it is there already.
    pub(crate) fn advance(&mut self, key: Key, stage: Stage, now_ms: u64) {
        let Some(entry) = self.entries.get_mut(&key).filter(|entry| entry.stage != stage) else {
            return;
        };
        if entry.stage == Stage::Leaving {
            self.leaving -= 1;
        }
        entry.stage = stage;
        entry.since_ms = now_ms;
        if let Some(worth) = entry.worth.take() {
            self.by_worth.remove(worth, key);
        }
        if stage == Stage::Leaving {
            self.leaving += 1;
        }
    }

    pub(crate) fn remove(&mut self, key: Key) -> Option<Entry> {
        let entry = self.entries.remove(&key)?;
        if entry.stage == Stage::Leaving {
            self.leaving -= 1;
        }
        if let Some(worth) = entry.worth {
            self.by_worth.remove(worth, key);
        }
        Some(entry)
    }

    /// Brings the worth of the next `budget` in turn up to date. Connections that
    /// came less than `stay_ms` ago can't be evicted yet.
    pub(crate) fn refresh(&mut self, budget: usize, stay_ms: u64, now_ms: u64) {
        let from = self.refreshed.map_or(Bound::Unbounded, Bound::Excluded);
        let mut last = None;
        for (&key, entry) in self.entries.range_mut((from, Bound::Unbounded)).take(budget) {
            last = Some(key);
            if entry.stage == Stage::Hardware && now_ms >= entry.since_ms.saturating_add(stay_ms) {
                set_worth(&mut self.by_worth, key, entry, now_ms);
            }
        }
        self.refreshed = last;
    }

    /// The connection that is worth least among those that may be evicted, and the
    /// most that it can be worth. Examines at most `looks` of them again.
    pub(crate) fn least(&mut self, looks: usize, now_ms: u64) -> Option<(Key, f64)> {
        for _ in 0..looks {
            let (worth, key) = self.by_worth.first()?;
            let entry = self.entries.get_mut(&key)?;
            let now = entry.meter.at_most(now_ms);
            if now <= worth {
                return Some((key, now));
            }
            set_worth(&mut self.by_worth, key, entry, now_ms);
        }
        self.by_worth.first().map(|(worth, key)| (key, worth))
    }

    /// A connection at this stage. The search visits all connections.
    pub(crate) fn at(&self, stage: Stage) -> Option<Key> {
        self.entries.iter().find(|(_, entry)| entry.stage == stage).map(|(&key, _)| key)
    }

    /// The place of `rate` among those with an entry, the heaviest being 1.
    pub(crate) fn rank(&self, rate: f64, now_ms: u64) -> usize {
        self.entries.values().filter(|entry| entry.meter.rate(now_ms) > rate).count() + 1
    }
}

fn set_worth(order: &mut Order, key: Key, entry: &mut Entry, now_ms: u64) {
    let worth = entry.meter.at_most(now_ms);
    if let Some(before) = entry.worth.replace(worth) {
        order.remove(before, key);
    }
    order.insert(worth, key);
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn key(conn: u32) -> Key {
        Key { conn, generation: 0 }
    }

    /// A connection with a sample of so many packets every 10 ms of a second.
    fn meter(packets: u32) -> Meter {
        let mut meter = Meter::new(packets, 0);
        (1..100).for_each(|n| meter.add(1, packets, n * 10));
        meter
    }

    #[test]
    fn the_heaviest_has_rank_one_and_equal_rates_have_one_rank() {
        let mut held = Held::default();
        for (conn, packets) in [(1, 10), (2, 20), (3, 20), (4, 40)] {
            held.insert(key(conn), meter(packets), 1000);
        }
        let rank = |conn| held.rank(held.get(key(conn)).unwrap().meter.rate(1000), 1000);
        assert_eq!([4, 3, 2, 1].map(rank), [1, 2, 2, 4]);
    }

    #[test]
    fn only_rules_that_have_been_in_the_card_for_their_stay_can_be_evicted() {
        const STAY_MS: u64 = 1000;
        let mut held = Held::default();
        (1..4).for_each(|conn| held.insert(key(conn), meter(10 * conn), 0));
        held.advance(key(3), Stage::Hardware, 1000);
        held.advance(key(2), Stage::Hardware, 1500);
        let least = |held: &mut Held, now_ms| {
            // The second walk begins where the first one began.
            (0..2).for_each(|_| held.refresh(10, STAY_MS, now_ms));
            held.least(10, now_ms).map(|(key, _)| key)
        };
        assert_eq!(least(&mut held, 1999), None);
        assert_eq!(least(&mut held, 2000), Some(key(3)));
        assert_eq!(least(&mut held, 2500), Some(key(2)));
    }
}
