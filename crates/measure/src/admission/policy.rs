//! The policies as players: they are told of samples and program the card.
use std::collections::VecDeque;

use admission::{Admission, Budget, Key, Room, Settings};
use flow::AdmissionPolicy;

use super::card::{Card, SETTLE_MS};
use super::population::Population;

/// Packets that a sample stands for: what workers do.
pub(super) const SAMPLE: u32 = 64;

/// The program that installs the card's rules.
pub(super) trait Player {
    /// Rates have changed; only an oracle may look.
    fn changed(&mut self, population: &Population);

    /// A sampled packet of `conn`.
    fn packet(&mut self, conn: u32, now_ms: u64);

    /// A millisecond has passed.
    fn tick(&mut self, now_ms: u64, card: &mut Card, population: &Population);

    /// Connections admitted and evicted so far.
    fn counts(&self) -> (u64, u64);
}

/// First come, first served.
pub(super) struct All {
    budget: Budget,
    line: VecDeque<u32>,
    asked: Vec<bool>,
    admitted: u64,
}

impl All {
    /// Whose line is `line` at first; others ask with a sampled packet.
    pub(super) fn new(insertions_per_second: u32, line: Vec<u32>, connections: u32) -> Self {
        let mut asked = vec![false; connections as usize];
        for &conn in &line {
            if let Some(asked) = asked.get_mut(conn as usize) {
                *asked = true;
            }
        }
        let budget = Budget::new(Some(insertions_per_second));
        Self { budget, line: line.into(), asked, admitted: 0 }
    }
}

impl Player for All {
    fn changed(&mut self, _: &Population) {}

    fn packet(&mut self, conn: u32, _: u64) {
        if let Some(asked) = self.asked.get_mut(conn as usize).filter(|asked| !**asked) {
            *asked = true;
            self.line.push_back(conn);
        }
    }

    fn tick(&mut self, now_ms: u64, card: &mut Card, _: &Population) {
        for _ in 0..self.budget.available(now_ms) {
            if card.is_full() {
                return;
            }
            let Some(conn) = self.line.pop_front() else { return };
            card.insert(conn);
            self.budget.asked(None);
            self.admitted += 1;
        }
    }

    fn counts(&self) -> (u64, u64) {
        (self.admitted, 0)
    }
}

/// The heaviest, as measured.
pub(super) struct Heavy {
    admission: Admission,
    budget: Budget,
    leaving: VecDeque<(u64, u32)>,
    /// What the card has been found to hold.
    full_at: Option<usize>,
}

impl Heavy {
    pub(super) fn new(insertions_per_second: u32) -> Self {
        let settings = Settings { policy: AdmissionPolicy::Heavy, ..Settings::default() };
        Self {
            admission: Admission::new(settings),
            budget: Budget::new(Some(insertions_per_second)),
            leaving: VecDeque::new(),
            full_at: None,
        }
    }
}

fn key(conn: u32) -> Key {
    Key { conn, generation: 1 }
}

impl Player for Heavy {
    fn changed(&mut self, _: &Population) {}

    fn packet(&mut self, conn: u32, now_ms: u64) {
        self.admission.seen(key(conn), SAMPLE, now_ms);
    }

    fn tick(&mut self, now_ms: u64, card: &mut Card, _: &Population) {
        while let Some(&(due, conn)) = self.leaving.front().filter(|(due, _)| *due <= now_ms) {
            debug_assert!(due <= now_ms);
            self.leaving.pop_front();
            self.admission.left(key(conn), now_ms);
        }
        let budget = self.budget.available(now_ms);
        let decisions = self.admission.decide(now_ms, Room { entries: self.full_at, budget });
        for gone in decisions.evict {
            card.remove(gone.conn);
            self.leaving.push_back((now_ms + SETTLE_MS, gone.conn));
        }
        for chosen in decisions.admit {
            self.budget.asked(None);
            if card.insert(chosen.conn) {
                self.admission.installed(chosen, now_ms);
            } else {
                self.full_at = Some(card.rules());
                self.admission.left(chosen, now_ms);
            }
        }
    }

    fn counts(&self) -> (u64, u64) {
        let counters = self.admission.counters();
        (counters.admitted, counters.evicted)
    }
}
