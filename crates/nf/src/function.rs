//! One instance of a network function: what it has, and whether it works.
use serde::{Deserialize, Serialize};

use crate::counters::FunctionCounters;
use crate::ledger::Ledger;
use crate::tag::Tagging;

/// Whether a function gets frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Health {
    /// It does.
    Up,
    /// Its attachment has no link: no process is there.
    Unplugged,
    /// It has taken no frame from its full queue for too long.
    Stuck,
    /// It has frames and has returned none for too long.
    Silent,
}

/// How long a function that doesn't work is waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Silence {
    /// Nanoseconds in which it takes no frame from a full queue and returns none.
    pub stuck_ns: u64,
    /// Nanoseconds in which it has frames and returns none; `None`: it may keep all, as a
    /// firewall does that drops everything.
    pub silent_ns: Option<u64>,
}

impl Default for Silence {
    /// 10 ms and 500 ms.
    fn default() -> Self {
        Self { stuck_ns: 10_000_000, silent_ns: Some(500_000_000) }
    }
}

/// What the server knows of one instance.
#[derive(Debug)]
pub(crate) struct Function {
    pub(crate) tagging: Tagging,
    pub(crate) ledger: Ledger,
    pub(crate) counters: FunctionCounters,
    pub(crate) health: Health,
    /// The number of its latest frame, and of the latest that is back.
    pub(crate) sent: u64,
    pub(crate) back: u64,
    /// Since when it has frames and has returned none.
    silent_since: Option<u64>,
    /// Since when its queue is full.
    full_since: Option<u64>,
}

impl Function {
    pub(crate) fn new(tagging: Tagging) -> Self {
        Self {
            tagging,
            ledger: Ledger::new(),
            counters: FunctionCounters::default(),
            health: Health::Unplugged,
            sent: 0,
            back: 0,
            silent_since: None,
            full_since: None,
        }
    }

    pub(crate) fn sends(&mut self, sequence: u64, bytes: u64, now_ns: u64) {
        self.sent = sequence;
        self.silent_since.get_or_insert(now_ns);
        self.counters.to_packets += 1;
        self.counters.to_bytes += bytes;
    }

    pub(crate) fn refuses(&mut self, bytes: u64, now_ns: u64) {
        self.full_since.get_or_insert(now_ns);
        self.counters.to_packets = self.counters.to_packets.saturating_sub(1);
        self.counters.to_bytes = self.counters.to_bytes.saturating_sub(bytes);
    }

    /// The queue has taken frames again.
    pub(crate) fn takes(&mut self) {
        self.full_since = None;
    }

    pub(crate) fn returns(&mut self, sequence: u64, now_ns: u64) {
        self.back = self.back.max(sequence);
        self.full_since = None;
        self.silent_since = (self.back < self.sent).then_some(now_ns);
    }

    /// Why it counts as dead, if it does.
    pub(crate) fn failing(&self, silence: Silence, now_ns: u64) -> Option<Health> {
        let over = |since: Option<u64>, most| {
            since.is_some_and(|since| now_ns.saturating_sub(since) > most)
        };
        if over(self.full_since, silence.stuck_ns) {
            return Some(Health::Stuck);
        }
        let silent = silence.silent_ns.is_some_and(|most| over(self.silent_since, most));
        silent.then_some(Health::Silent)
    }

    /// What it had is lost.
    pub(crate) fn fail(&mut self, health: Health) {
        if self.health == Health::Up {
            self.counters.failures += 1;
            self.counters.lost += self.sent.saturating_sub(self.back);
        }
        self.health = health;
        self.back = self.sent;
        self.silent_since = None;
        self.full_since = None;
    }
}
