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

/// The pause before the first trial of a stuck function, in nanoseconds: a queue that is
/// not ready yet when the link comes up is ready soon.
const STUCK_PAUSE_NS: u64 = 100_000_000;
/// The pause before the first trial of a silent function: each trial costs frames.
const SILENT_PAUSE_NS: u64 = 1_000_000_000;
/// The longest pause between two trials.
const LONGEST_PAUSE_NS: u64 = 10_000_000_000;
/// How long a function on trial may be silent: a dead one is to cost few frames.
const TRIAL_NS: u64 = 20_000_000;

/// The next trial of a function that is stuck or silent. Without trials it would get no
/// frame, and so could never show that it works again.
#[derive(Clone, Copy, Debug)]
struct Trial {
    due_ns: u64,
    pause_ns: u64,
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
    /// It is `None` once the function has returned a frame since its link came up.
    trial: Option<Trial>,
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
            trial: None,
        }
    }

    /// Its link is up: it works until it shows otherwise.
    pub(crate) fn attaches(&mut self) {
        self.health = Health::Up;
        self.trial = None;
    }

    /// It works again if it may be tried again by now.
    pub(crate) fn tries_again(&mut self, now_ns: u64) -> bool {
        let due = self.trial.is_some_and(|trial| now_ns >= trial.due_ns);
        let failed = matches!(self.health, Health::Stuck | Health::Silent);
        if due && failed {
            self.health = Health::Up;
        }
        due && failed
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
        self.trial = None;
        self.silent_since = (self.back < self.sent).then_some(now_ns);
    }

    /// Why it counts as dead, if it does.
    pub(crate) fn failing(&self, silence: Silence, now_ns: u64) -> Option<Health> {
        let over = |since: Option<u64>, most| {
            since.is_some_and(|since| now_ns.saturating_sub(since) > most)
        };
        let on_trial = self.trial.is_some();
        if over(self.full_since, if on_trial { 0 } else { silence.stuck_ns }) {
            return Some(Health::Stuck);
        }
        let silent = silence.silent_ns.is_some_and(|most| {
            over(self.silent_since, if on_trial { most.min(TRIAL_NS) } else { most })
        });
        silent.then_some(Health::Silent)
    }

    /// What it had is lost. A stuck or silent function is tried again after a pause that
    /// doubles with each trial.
    pub(crate) fn fail(&mut self, health: Health, now_ns: u64) {
        let first_ns = if health == Health::Stuck { STUCK_PAUSE_NS } else { SILENT_PAUSE_NS };
        let pause_ns = self.trial.map_or(first_ns, |trial| {
            trial.pause_ns.saturating_mul(2).clamp(first_ns, LONGEST_PAUSE_NS)
        });
        self.trial = (health != Health::Unplugged)
            .then(|| Trial { due_ns: now_ns.saturating_add(pause_ns), pause_ns });
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
