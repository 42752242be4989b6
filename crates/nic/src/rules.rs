//! The programming side: which rules are accepted and when they take effect.
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::ops::RangeInclusive;

use dpdk::flow::{Counters, FlowError, FlowErrorKind, GroupUse};

use crate::fault::{Fault, Faults};
use crate::key::Key;
use crate::pending::{Change, Pending};
use crate::profile::{Identity, Parsed, Profile, refuse};
use crate::redirection::Lateness;
use crate::stats::{FaultHits, NicStats, Refused};
use crate::steering::{Domain, Fate};
use crate::tables::Tables;

/// mlx5's words for a query of a rule without COUNT (`flow_dv_query_count`).
const NO_COUNTER: &str = "counters are not available";

/// Rules whose timeouts one query examines.
const LOOKED_AT: usize = 8192;

/// An accepted rule.
struct Installed {
    rule: Parsed,
    /// When it was accepted.
    created_ns: u64,
    /// Whether the hardware has it too; a lost rule is only in the driver's list.
    in_hardware: bool,
}

/// The waiting that a create costs its caller.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Cost {
    /// Nanoseconds.
    pub(crate) ns: u64,
    /// When the card is done with it.
    pub(crate) done_ns: u64,
    /// Whether the caller is to sleep for them.
    pub(crate) sleep: bool,
}

/// The rules of a port, the hardware's table and the faults in force.
pub(crate) struct Rules {
    card: &'static Profile,
    capacity: usize,
    pub(crate) tables: Tables,
    installed: BTreeMap<u64, Installed>,
    /// Rules whose timeout has passed.
    aged: BTreeSet<u64>,
    /// The rule from which on timeouts are examined next.
    look_next: u64,
    by_identity: HashMap<Identity, u64>,
    soft_ids: HashSet<u32>,
    /// Destroyed rules whose filters still match.
    leaving: HashMap<u64, Parsed>,
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
    pub(crate) fn new(card: &'static Profile, capacity: usize) -> Self {
        Self {
            card,
            capacity,
            tables: Tables::new(card, capacity),
            installed: BTreeMap::new(),
            aged: BTreeSet::new(),
            look_next: 0,
            by_identity: HashMap::new(),
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

    /// How late the next update of the redirection table takes effect; `None`: a fault
    /// refuses it, or the port is stopped.
    pub(crate) fn reta_update(&mut self) -> Option<Lateness> {
        let refused = !self.running || self.faults.refuses_reta_update();
        (!refused).then_some(self.faults.late_reta)
    }

    pub(crate) fn clear_faults(&mut self) {
        self.faults = Faults::default();
    }

    /// Moves the clock to `now_ns`, never back, and carries out the changes that are
    /// due by then.
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
        if let Some(installed) = self.installed.get(&id) {
            self.tables.activate(id, &installed.rule, self.now_ns);
        }
    }

    fn leave(&mut self, id: u64) {
        if let Some(rule) = self.leaving.remove(&id) {
            self.tables.deactivate(id, &rule);
            self.in_hardware -= 1;
        }
    }

    /// Accepts `rule` or says why not. Alone it takes the card `insert_ns`.
    pub(crate) fn create(
        &mut self,
        rule: Parsed,
        insert_ns: u64,
    ) -> Result<(u64, Cost), FlowError> {
        let id = self.next_id();
        self.create_as(id, rule, insert_ns).map(|cost| (id, cost))
    }

    /// The number of a rule that may come.
    pub(crate) fn next_id(&mut self) -> u64 {
        self.last_id += 1;
        self.last_id
    }

    /// As [`Self::create`], for a number that was given out before.
    pub(crate) fn create_as(
        &mut self,
        id: u64,
        rule: Parsed,
        insert_ns: u64,
    ) -> Result<Cost, FlowError> {
        self.admit(&rule)?;
        let full = self.is_full() || self.tables.root_is_full(&rule);
        if full && !self.faults.silently_full {
            self.refused.full += 1;
            return Err(self.words(FlowError::NO_SPACE, self.card.words.full));
        }
        if self.tables.is_first_of_mask(&rule) {
            self.flush_leaving(&rule);
        }
        let in_hardware = !full && !self.faults.loses();
        self.by_identity.insert(rule.identity(), id);
        self.soft_ids.extend(rule.soft_id());
        self.tables.hold_mask(&rule);
        self.created += 1;
        let (at_ns, cost) = self.schedule(insert_ns);
        let created_ns = self.now_ns;
        self.installed.insert(id, Installed { rule, created_ns, in_hardware });
        if !in_hardware {
            self.hits.lost += 1;
            return Ok(cost);
        }
        self.in_hardware += 1;
        self.peak = self.peak.max(self.in_hardware);
        if at_ns > self.now_ns {
            self.pending.push(at_ns, id, Change::Activate);
        } else {
            self.activate(id);
        }
        Ok(cost)
    }

    /// The objection to `rule`, apart from the room.
    fn admit(&mut self, rule: &Parsed) -> Result<(), FlowError> {
        if !self.running {
            self.refused.stopped += 1;
            return Err(self.words(FlowError::INVALID, "Failed to create flow: port is stopped"));
        }
        if self.faults.refuses_create() {
            self.refused.fault += 1;
            self.hits.refused_creates += 1;
            return Err(self.words(FlowError::INVALID, "Failed to create flow."));
        }
        (self.card.program)(rule).inspect_err(|_| self.refused.unsupported += 1)?;
        if !self.tables.agrees_with_mask(rule) {
            self.refused.mask += 1;
            return Err(self.words(FlowError::INVALID, self.card.words.mask));
        }
        if self.by_identity.contains_key(&rule.identity()) {
            self.refused.duplicate += 1;
            return Err(self.words(FlowError::EXISTS, self.card.words.duplicate));
        }
        if rule.soft_id().is_some_and(|id| self.soft_ids.contains(&id)) {
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
    fn schedule(&mut self, insert_ns: u64) -> (u64, Cost) {
        let slow = self.faults.slow_create_ns;
        let ns = insert_ns.saturating_add(slow);
        let late = self.faults.late_create_ns;
        self.hits.slow_creates += u64::from(slow > 0);
        self.hits.late_creates += u64::from(late > 0);
        self.create_ns = self.create_ns.saturating_add(ns);
        let done = self.busy_until_ns.max(self.now_ns).saturating_add(ns);
        self.busy_until_ns = done;
        (done.saturating_add(late), Cost { ns, done_ns: done, sleep: self.faults.sleep })
    }

    /// A new mask re-initialises the hardware: filters that still linger under the
    /// old mask are gone at once.
    fn flush_leaving(&mut self, rule: &Parsed) {
        let Parsed::Director(new) = rule else { return };
        let is_v4 = |key: Key| matches!(key, Key::V4(_));
        let under_mask = self.leaving.iter().filter(|(_, old)| match old {
            Parsed::Director(old) => {
                self.card.one_mask || (old.kind == new.kind && is_v4(old.key) == is_v4(new.key))
            }
            Parsed::Steering(_) => false,
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
        let Some(Installed { rule, in_hardware, .. }) = self.installed.remove(&id) else {
            return Ok(());
        };
        self.aged.remove(&id);
        self.by_identity.remove(&rule.identity());
        if let Some(soft_id) = rule.soft_id() {
            self.soft_ids.remove(&soft_id);
        }
        self.tables.release_mask(&rule);
        self.destroyed += 1;
        if in_hardware {
            self.leaving.insert(id, rule);
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
    pub(crate) fn query(&mut self, id: u64) -> Result<Counters, FlowError> {
        if self.faults.refuses_query() {
            return Err(self.words(FlowError::INVALID, "cannot read counter"));
        }
        let Some(Installed { rule, .. }) = self.installed.get(&id) else {
            return Err(self.words(FlowError::NOT_FOUND, "no such rule"));
        };
        if !rule.counts() {
            let message = if self.card.profile.rewrites() {
                NO_COUNTER
            } else {
                "FDIR counters not available"
            };
            return Err(refuse(FlowErrorKind::Action, FlowError::INVALID, message));
        }
        Ok(self.tables.counters(id, rule))
    }

    /// The rules whose AGE timeout has passed without a packet, as far as they have
    /// been examined: a call examines [`LOOKED_AT`] rules, by turns. An aged rule
    /// stays aged until it is destroyed, even if packets come.
    pub(crate) fn aged(&mut self) -> Vec<u64> {
        let Self { tables, aged, now_ns, .. } = self;
        let mut looked = 0;
        for (id, installed) in self.installed.range(self.look_next..).take(LOOKED_AT) {
            looked += 1;
            self.look_next = id + 1;
            let timeout_ns = u64::from(installed.rule.age_s()) * 1_000_000_000;
            let hit = tables.last_hit_ns(*id, &installed.rule);
            let since = now_ns.saturating_sub(hit.unwrap_or(installed.created_ns));
            if timeout_ns > 0 && since >= timeout_ns {
                aged.insert(*id);
            }
        }
        if looked < LOOKED_AT {
            self.look_next = 0;
        }
        self.aged.iter().copied().collect()
    }

    /// The switch's rules in `groups`, and those that jump there, these first.
    pub(crate) fn in_groups(&self, groups: &RangeInclusive<u32>) -> Vec<u64> {
        let rank = |installed: &Installed| match &installed.rule {
            Parsed::Steering(flow) => {
                let jump = match flow.fate {
                    Fate::Jump(group) => Some(group),
                    _ => None,
                };
                let transfer = flow.place.domain == Domain::Switch;
                GroupUse { transfer, group: flow.place.group, jump }.rank(groups)
            }
            Parsed::Director(_) => None,
        };
        let ranked = self.installed.iter().filter_map(|(id, rule)| Some((rank(rule)?, *id)));
        let mut found: Vec<_> = ranked.collect();
        found.sort_unstable();
        found.into_iter().map(|(_, id)| id).collect()
    }

    /// Whether no rule is accepted.
    pub(crate) fn is_empty(&self) -> bool {
        self.installed.is_empty()
    }

    /// The NIC's time.
    pub(crate) fn now_ns(&self) -> u64 {
        self.now_ns
    }

    /// Counts a rule that the parser refused.
    pub(crate) fn refused_by_parser(&mut self) {
        self.refused.unsupported += 1;
    }

    /// Stops the port: all rules are gone, their handles void.
    pub(crate) fn stop(&mut self) {
        self.running = false;
        self.tables.clear();
        self.installed.clear();
        self.aged.clear();
        self.by_identity.clear();
        self.soft_ids.clear();
        self.leaving.clear();
        self.pending.clear();
        self.in_hardware = 0;
        self.busy_until_ns = 0;
    }

    /// Starts the port, without rules.
    pub(crate) fn start(&mut self) {
        self.running = true;
    }

    /// This side's part of the statistics.
    pub(crate) fn fill(&self, stats: &mut NicStats) {
        stats.rules = self.in_hardware;
        stats.listed = self.installed.len();
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
