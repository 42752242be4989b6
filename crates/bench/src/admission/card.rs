//! An emulated card: so many entries, so many insertions a second.
use super::population::Population;

/// From the decision to evict until the entry is free: the rule is destroyed
/// with the next tick, the card has 10 ms to let go, queues are emptied.
pub(super) const SETTLE_MS: u64 = 12;

/// Which connections have a rule, and what share of the packets they are.
#[derive(Debug)]
pub(super) struct Card {
    pub(super) entries: usize,
    installed: Vec<bool>,
    rules: usize,
}

impl Card {
    pub(super) fn new(entries: usize, connections: u32) -> Self {
        Self { entries, installed: vec![false; connections as usize], rules: 0 }
    }

    pub(super) fn has(&self, conn: u32) -> bool {
        self.installed.get(conn as usize).copied().unwrap_or(false)
    }

    pub(super) fn is_full(&self) -> bool {
        self.rules >= self.entries
    }

    pub(super) fn rules(&self) -> usize {
        self.rules
    }

    /// Whether there was room.
    pub(super) fn insert(&mut self, conn: u32) -> bool {
        if self.is_full() {
            return false;
        }
        if let Some(slot) = self.installed.get_mut(conn as usize).filter(|slot| !**slot) {
            *slot = true;
            self.rules += 1;
        }
        true
    }

    pub(super) fn remove(&mut self, conn: u32) {
        if let Some(slot) = self.installed.get_mut(conn as usize).filter(|slot| **slot) {
            *slot = false;
            self.rules -= 1;
        }
    }

    /// The share of all packets that is matched.
    pub(super) fn share(&self, population: &Population) -> f64 {
        let installed = self.installed.iter().zip(0..).filter(|(has, _)| **has);
        installed.map(|(_, conn)| population.share_of(conn)).sum()
    }
}
