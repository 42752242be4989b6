//! The monitors of all backends, and which of them is due.
use std::collections::{BTreeMap, BTreeSet};

use crate::{Change, Monitor, Outcome, Target, TargetKey};

/// A probe that is to begin, and its name when it ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ticket {
    /// Tells this probe from those of an earlier configuration of the backend.
    number: u64,
    /// What is probed.
    pub target: Target,
}

struct Member {
    /// Of the latest configuration of the target: probes of an earlier one do not
    /// count.
    number: u64,
    target: Target,
    monitor: Monitor,
    due_ms: Option<u64>,
}

/// All checked backends. Time and probes come from outside.
#[derive(Default)]
pub struct Fleet {
    members: BTreeMap<TargetKey, Member>,
    due: BTreeSet<(u64, TargetKey)>,
    next_number: u64,
    seed: u64,
}

impl std::fmt::Debug for Fleet {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Fleet").field("members", &self.members.len()).finish_non_exhaustive()
    }
}

impl Fleet {
    /// A fleet without backends, whose probes come at times that follow from `seed`.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self { seed, ..Self::default() }
    }

    /// Checks `targets` from now on, and no others. A backend that was checked
    /// before keeps its state; if what is asked of it has changed, a probe that is
    /// under way does not count.
    pub fn set(&mut self, targets: Vec<Target>, now_ms: u64) {
        let mut old = std::mem::take(&mut self.members);
        self.due.clear();
        for target in targets {
            let known = old.remove(&target.key);
            self.next_number += 1;
            let member = match known {
                Some(member) if member.target == target => member,
                Some(member) if member.target.asks_the_same(&target) => {
                    let mut monitor = member.monitor;
                    monitor.set(target.settings);
                    Member { target, monitor, ..member }
                }
                other => {
                    let number = self.next_number;
                    let seed = self.seed ^ number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
                    let monitor = match other {
                        Some(member) => member.monitor.again(target.settings, seed, now_ms),
                        None => Monitor::new(target.settings, seed, now_ms),
                    };
                    Member { number, target, monitor, due_ms: None }
                }
            };
            let key = member.target.key.clone();
            self.members.insert(key.clone(), member);
            self.plan(&key);
        }
    }

    /// The backends that are checked.
    pub fn keys(&self) -> impl Iterator<Item = &TargetKey> {
        self.members.keys()
    }

    /// When [`Self::tick`] has something to do next; `None`: after the probes that are
    /// under way.
    #[must_use]
    pub fn due_ms(&self) -> Option<u64> {
        self.due.first().map(|(due_ms, _)| *due_ms)
    }

    /// The probes that begin at `now_ms`, and what has changed by the time.
    pub fn tick(&mut self, now_ms: u64) -> (Vec<Ticket>, Vec<(TargetKey, Change)>) {
        let (mut begin, mut changes) = (Vec::new(), Vec::new());
        while self.due.first().is_some_and(|(due_ms, _)| *due_ms <= now_ms) {
            let Some((_, key)) = self.due.pop_first() else { break };
            let Some(member) = self.members.get_mut(&key) else { continue };
            member.due_ms = None;
            let (begins, change) = member.monitor.tick(now_ms);
            if begins {
                begin.push(Ticket { number: member.number, target: member.target.clone() });
            }
            changes.extend(change.map(|change| (key.clone(), change)));
            self.plan(&key);
        }
        (begin, changes)
    }

    /// The probe of `ticket` has ended. Whether it counts, and what it changes.
    pub fn finish(
        &mut self,
        ticket: &Ticket,
        outcome: Outcome,
        now_ms: u64,
    ) -> (bool, Option<Change>) {
        let key = &ticket.target.key;
        let member = self.members.get_mut(key).filter(|own| own.number == ticket.number);
        let Some(member) = member else { return (false, None) };
        let change = member.monitor.finish(outcome, now_ms);
        self.plan(key);
        (true, change)
    }

    fn plan(&mut self, key: &TargetKey) {
        let Some(member) = self.members.get_mut(key) else { return };
        if let Some(due_ms) = member.due_ms.take() {
            self.due.remove(&(due_ms, key.clone()));
        }
        member.due_ms = member.monitor.due_ms();
        if let Some(due_ms) = member.due_ms {
            self.due.insert((due_ms, key.clone()));
        }
    }
}
