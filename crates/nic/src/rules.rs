//! The programming side: which rules are accepted and when they take effect.
use std::collections::{HashMap, HashSet};

use dpdk::flow::{Counters, FlowError, FlowErrorKind};

use crate::fault::{Fault, Faults};
use crate::key::Key;
use crate::matcher::Matcher;
use crate::pending::{Change, Pending};
use crate::profile::{Card, Filter, refuse};
use crate::stats::{FaultHits, NicStats, Refused};

/// An accepted rule.
#[derive(Clone, Copy)]
struct Installed {
    filter: Filter,
    /// Whether the hardware has it too; a lost rule is only in the driver's list.
    in_hardware: bool,
}

/// The waiting that a create costs its caller.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Cost {
    /// Nanoseconds.
    pub(crate) ns: u64,
    /// Whether the caller is to sleep for them.
    pub(crate) sleep: bool,
}

/// The rules of a port, the hardware's table and the faults in force.
pub(crate) struct Rules {
    card: &'static Card,
    capacity: usize,
    pub(crate) matcher: Matcher,
    installed: HashMap<u64, Installed>,
    by_key: HashMap<Key, u64>,
    soft_ids: HashSet<u32>,
    /// Destroyed rules whose filters still match.
    leaving: HashMap<u64, Filter>,
    in_hardware: usize,
    pending: Pending,
    faults: Faults,
    now_ns: u64,
    busy_until_ns: u64,
    last_id: u64,
    running: bool,
    peak: usize,
    created: u64,
    destroyed: u64,
    refused: Refused,
    hits: FaultHits,
    create_ns: u64,
}

impl Rules {
    pub(crate) fn new(card: &'static Card, capacity: usize) -> Self {
        Self {
            card,
            capacity,
            matcher: Matcher::new(card, capacity),
            installed: HashMap::new(),
            by_key: HashMap::new(),
            soft_ids: HashSet::new(),
            leaving: HashMap::new(),
            in_hardware: 0,
            pending: Pending::default(),
            faults: Faults::default(),
            now_ns: 0,
            busy_until_ns: 0,
            last_id: 0,
            running: true,
            peak: 0,
            created: 0,
            destroyed: 0,
            refused: Refused::default(),
            hits: FaultHits::default(),
            create_ns: 0,
        }
    }

    pub(crate) fn running(&self) -> bool {
        self.running
    }

    pub(crate) fn order_fault(&mut self, fault: Fault) {
        self.faults.order(fault);
    }

    pub(crate) fn clear_faults(&mut self) {
        self.faults = Faults::default();
    }

    /// The clock goes to `now_ns`, never back; what is due by then happens.
    #[inline]
    pub(crate) fn advance(&mut self, now_ns: u64) {
        self.now_ns = self.now_ns.max(now_ns);
        while let Some((id, change)) = self.pending.pop(self.now_ns) {
            match change {
                Change::Activate => self.activate(id),
                Change::Deactivate => self.leave(id),
            }
        }
    }

    fn activate(&mut self, id: u64) {
        if let Some(rule) = self.installed.get(&id) {
            self.matcher.activate(id, &rule.filter);
        }
    }

    fn leave(&mut self, id: u64) {
        if let Some(filter) = self.leaving.remove(&id) {
            self.matcher.deactivate(id, filter.key);
            self.in_hardware -= 1;
        }
    }

    /// Accepts `filter` or says why not.
    pub(crate) fn create(&mut self, filter: Filter) -> Result<(u64, Cost), FlowError> {
        self.admit(&filter)?;
        let full = self.is_full();
        if full && !self.faults.silently_full {
            self.refused.full += 1;
            return Err(self.words(FlowError::NO_SPACE, self.card.words.full));
        }
        if self.matcher.is_first_of_mask(&filter) {
            self.flush_leaving(&filter);
        }
        self.last_id += 1;
        let id = self.last_id;
        let in_hardware = !full && !self.faults.loses();
        self.installed.insert(id, Installed { filter, in_hardware });
        self.by_key.insert(filter.key, id);
        self.soft_ids.extend(filter.soft_id);
        self.matcher.hold_mask(&filter);
        self.created += 1;
        let (at_ns, cost) = self.schedule();
        if !in_hardware {
            self.hits.lost += 1;
            return Ok((id, cost));
        }
        self.in_hardware += 1;
        self.peak = self.peak.max(self.in_hardware);
        if at_ns > self.now_ns {
            self.pending.push(at_ns, id, Change::Activate);
        } else {
            self.activate(id);
        }
        Ok((id, cost))
    }

    /// What speaks against `filter` besides the room.
    fn admit(&mut self, filter: &Filter) -> Result<(), FlowError> {
        if !self.running {
            self.refused.stopped += 1;
            return Err(self.words(FlowError::INVALID, "Failed to create flow: port is stopped"));
        }
        if self.faults.refuses_create() {
            self.refused.fault += 1;
            self.hits.refused_creates += 1;
            return Err(self.words(FlowError::INVALID, "Failed to create flow."));
        }
        (self.card.program)(filter).inspect_err(|_| self.refused.unsupported += 1)?;
        if !self.matcher.agrees_with_mask(filter) {
            self.refused.mask += 1;
            return Err(self.words(FlowError::INVALID, self.card.words.mask));
        }
        if self.by_key.contains_key(&filter.key) {
            self.refused.duplicate += 1;
            return Err(self.words(FlowError::EXISTS, self.card.words.duplicate));
        }
        if filter.soft_id.is_some_and(|id| self.soft_ids.contains(&id)) {
            self.refused.soft_id += 1;
            return Err(self.words(FlowError::EXISTS, self.card.words.soft_id));
        }
        Ok(())
    }

    fn words(&self, errno: i32, words: &str) -> FlowError {
        refuse(FlowErrorKind::Handle, errno, words)
    }

    fn is_full(&self) -> bool {
        self.in_hardware >= self.faults.full_at.map_or(self.capacity, |at| at.min(self.capacity))
    }

    /// When a create that begins now takes effect, and what it costs.
    fn schedule(&mut self) -> (u64, Cost) {
        let ns = self.faults.slow_create_ns;
        let late = self.faults.late_create_ns;
        self.hits.slow_creates += u64::from(ns > 0);
        self.hits.late_creates += u64::from(late > 0);
        self.create_ns = self.create_ns.saturating_add(ns);
        let done = self.busy_until_ns.max(self.now_ns).saturating_add(ns);
        self.busy_until_ns = done;
        (done.saturating_add(late), Cost { ns, sleep: self.faults.sleep })
    }

    /// A new mask re-initialises the hardware: what still lingers under the
    /// old one is gone at once.
    fn flush_leaving(&mut self, filter: &Filter) {
        let same_family = |key: Key| matches!(key, Key::V4(_)) == matches!(filter.key, Key::V4(_));
        let under_mask = self.leaving.iter().filter(|(_, old)| {
            self.card.one_mask || (old.kind == filter.kind && same_family(old.key))
        });
        let ids: Vec<u64> = under_mask.map(|(id, _)| *id).collect();
        ids.into_iter().for_each(|id| self.leave(id));
    }

    /// Removes rule `id`.
    pub(crate) fn destroy(&mut self, id: u64) -> Result<(), FlowError> {
        if !self.installed.contains_key(&id) {
            self.refused.unknown += 1;
            return Err(self.words(FlowError::NOT_FOUND, "Failed to destroy flow: no such rule"));
        }
        if self.faults.refuses_destroy() {
            self.refused.destroy += 1;
            self.hits.refused_destroys += 1;
            return Err(self.words(FlowError::INVALID, "Failed to destroy flow"));
        }
        let Some(rule) = self.installed.remove(&id) else { return Ok(()) };
        self.by_key.remove(&rule.filter.key);
        if let Some(soft_id) = rule.filter.soft_id {
            self.soft_ids.remove(&soft_id);
        }
        self.matcher.release_mask(&rule.filter);
        self.destroyed += 1;
        if rule.in_hardware {
            self.leaving.insert(id, rule.filter);
            let late = self.faults.late_destroy_ns;
            if late > 0 {
                self.hits.late_destroys += 1;
                self.pending.push(self.now_ns.saturating_add(late), id, Change::Deactivate);
            } else {
                self.leave(id);
            }
        }
        Ok(())
    }

    /// What the COUNT action of rule `id` has seen.
    pub(crate) fn query(&self, id: u64) -> Result<Counters, FlowError> {
        let Some(rule) = self.installed.get(&id) else {
            return Err(self.words(FlowError::NOT_FOUND, "no such rule"));
        };
        if !rule.filter.count {
            let message = "FDIR counters not available";
            return Err(refuse(FlowErrorKind::Action, FlowError::INVALID, message));
        }
        Ok(self.matcher.counters(id, rule.filter.key))
    }

    /// Counts a rule that the parser refused.
    pub(crate) fn refused_by_parser(&mut self) {
        self.refused.unsupported += 1;
    }

    /// The port stops: all rules are gone, their handles void.
    pub(crate) fn stop(&mut self) {
        self.running = false;
        self.matcher.clear();
        self.installed.clear();
        self.by_key.clear();
        self.soft_ids.clear();
        self.leaving.clear();
        self.pending.clear();
        self.in_hardware = 0;
        self.busy_until_ns = 0;
    }

    /// The port starts, without rules.
    pub(crate) fn start(&mut self) {
        self.running = true;
    }

    /// This side's part of the statistics.
    pub(crate) fn fill(&self, stats: &mut NicStats) {
        stats.rules = self.in_hardware;
        stats.rules_peak = self.peak;
        stats.capacity = self.capacity;
        stats.rx_buffer_kib = (self.card.rx_buffer_kib)(self.capacity);
        stats.created = self.created;
        stats.destroyed = self.destroyed;
        stats.refused = self.refused;
        stats.faults = self.hits;
        stats.create_ns = self.create_ns;
    }
}
