//! A card and connections with known rates.
use std::collections::{BTreeMap, VecDeque};

use admission::{Admission, Budget, CardRefusal, Key, Room, Settings, Standing};
use traffic::Rng;

/// From an eviction until the entry is free.
const SETTLE_MS: u64 = 12;

pub(crate) fn key(conn: u32) -> Key {
    Key { conn, generation: 1 }
}

pub(crate) struct Emulated {
    pub(crate) admission: Admission,
    pub(crate) now_ms: u64,
    /// Samples per second of each connection.
    pub(crate) rates: Vec<f64>,
    /// Samples come at even distances, not by chance.
    pub(crate) regular: bool,
    /// What a creation takes.
    pub(crate) cost_ns: u64,
    /// A connection whose rules the card refuses.
    pub(crate) refuse: Option<u32>,
    /// The fewest rules since the card was found to be full.
    pub(crate) fewest_since_full: Option<usize>,
    /// The most that were leaving at once.
    pub(crate) most_leaving: usize,
    /// Times that the card was asked for more than it was known to hold.
    pub(crate) overruns: usize,
    budget: Budget,
    capacity: usize,
    known: Option<usize>,
    rules: BTreeMap<u32, ()>,
    leaving: VecDeque<(u64, u32)>,
    due: Vec<f64>,
    rng: Rng,
}

impl Emulated {
    pub(crate) fn new(
        settings: Settings,
        capacity: usize,
        budget: Option<u32>,
        rates: Vec<f64>,
    ) -> Self {
        Self {
            admission: Admission::new(settings),
            now_ms: 0,
            due: vec![0.0; rates.len()],
            rates,
            regular: false,
            cost_ns: 1_000,
            refuse: None,
            fewest_since_full: None,
            most_leaving: 0,
            overruns: 0,
            budget: Budget::new(budget),
            capacity,
            known: None,
            rules: BTreeMap::new(),
            leaving: VecDeque::new(),
            rng: Rng::new(5),
        }
    }

    pub(crate) fn has(&self, conn: u32) -> bool {
        self.rules.contains_key(&conn)
    }

    pub(crate) fn rules(&self) -> usize {
        self.rules.len()
    }

    /// The card holds fewer from now on, and tells.
    pub(crate) fn shrink(&mut self, capacity: usize) {
        (self.capacity, self.known) = (capacity, Some(capacity));
    }

    /// The true share of packets that are matched.
    pub(crate) fn share(&self) -> f64 {
        let matched: f64 = self.rules.keys().map(|&conn| self.rates[conn as usize]).sum();
        matched / self.rates.iter().sum::<f64>()
    }

    pub(crate) fn run(&mut self, ms: u64) {
        for _ in 0..ms {
            self.now_ms += 1;
            self.packets();
            self.tick();
        }
    }

    fn packets(&mut self) {
        for conn in 0..self.rates.len() {
            self.due[conn] += self.rates[conn] / 1_000.0;
            let whole = self.due[conn].floor();
            let come = if self.regular {
                self.due[conn] -= whole;
                whole
            } else {
                // By chance, as often in the mean.
                let part = f64::from(u8::from(self.rng.unit() < self.due[conn] - whole));
                self.due[conn] = 0.0;
                whole + part
            };
            for _ in 0..come as u64 {
                self.admission.seen(key(conn as u32), 64, self.now_ms);
            }
        }
    }

    fn tick(&mut self) {
        let now_ms = self.now_ms;
        while let Some(&(due, conn)) = self.leaving.front() {
            if due > now_ms {
                break;
            }
            self.leaving.pop_front();
            self.admission.left(key(conn), now_ms);
        }
        let budget = self.budget.available(now_ms).min(64);
        let decisions = self.admission.decide(now_ms, Room { entries: self.known, budget });
        assert!(decisions.admit.len() <= budget);
        for gone in decisions.evict {
            assert!(self.rules.remove(&gone.conn).is_some(), "{gone:?} had no rule");
            self.leaving.push_back((now_ms + SETTLE_MS, gone.conn));
        }
        self.most_leaving = self.most_leaving.max(self.leaving.len());
        let known = self.known.is_some();
        for chosen in decisions.admit {
            self.budget.asked(Some(self.cost_ns));
            self.create(chosen, known);
        }
        if self.known.is_some() {
            let fewest = self.fewest_since_full.unwrap_or(usize::MAX).min(self.rules.len());
            self.fewest_since_full = Some(fewest);
        }
    }

    fn create(&mut self, chosen: Key, known: bool) {
        if self.refuse == Some(chosen.conn) {
            return self.admission.refused(chosen, CardRefusal::Failed, self.now_ms);
        }
        if self.rules.len() + self.leaving.len() >= self.capacity {
            self.overruns += usize::from(known);
            self.known = Some(self.capacity);
            return self.admission.left(chosen, self.now_ms);
        }
        assert!(self.rules.insert(chosen.conn, ()).is_none(), "{chosen:?} has two entries");
        self.admission.installed(chosen, self.now_ms);
    }

    /// What is told is what is.
    pub(crate) fn check(&self) {
        assert_eq!(self.overruns, 0);
        assert!(self.rules.len() + self.leaving.len() <= self.capacity);
        let counters = self.admission.counters();
        assert_eq!(counters.held, self.rules.len() + self.leaving.len());
        for conn in 0..self.rates.len() as u32 {
            let standing = self.admission.standing(key(conn), self.now_ms);
            let leaving = self.leaving.iter().any(|&(_, other)| other == conn);
            match standing {
                Standing::Hardware { since_ms, .. } => {
                    assert!(self.has(conn) && since_ms <= self.now_ms);
                }
                Standing::Leaving { .. } => assert!(leaving),
                Standing::InLine { .. } => panic!("nobody waits here"),
                Standing::Software { .. } => assert!(!self.has(conn) && !leaving),
            }
        }
    }
}
