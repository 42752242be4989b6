//! The owner of all rules: takes requests, and drives every rule through its life.
pub(crate) mod admission;
pub(crate) mod create;
pub(crate) mod hw_counters;
pub(crate) mod reroute;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use ::admission::{Admission, Budget, CardRefusal};
use conntrack::ConnId;
use dpdk::flow::{FlowPort, RuleHandle};
use flow::{Direction, Encoding, PortId};
use state::{Offload, Shared};

use crate::connection::{Entry, Stage, Tag};
use crate::environment::{Connections, PortTables};
use crate::mark_fallback::{NotRewritten, Unmatched};
use crate::offloader::reroute::Routes;
use crate::port::PortRules;
use crate::{OffloadConfig, OffloadStats, PortStats};

/// How often [`Offloader::shutdown`] asks a card to destroy a rule.
const SHUTDOWN_TRIES: usize = 8;

/// Owns every rule of the process. It knows no threads: somebody calls
/// [`tick`](Self::tick) about once a millisecond on a core of its own, because
/// a card may take hundreds of microseconds for one rule.
#[derive(Debug)]
pub struct Offloader<C = Arc<Shared>> {
    pub(crate) world: C,
    pub(crate) config: OffloadConfig,
    pub(crate) entries: BTreeMap<ConnId, Entry>,
    pub(crate) ports: Vec<PortRules>,
    pub(crate) audited: Option<ConnId>,
    pub(crate) orphaned: u64,
    /// Up to where counters have been read in this round.
    pub(crate) counted: Option<ConnId>,
    /// Connections that may be idle.
    pub(crate) suspects: BTreeSet<ConnId>,
    pub(crate) unmatched: Unmatched,
    pub(crate) routes: Routes,
    pub(crate) entries_ms: u64,
    pub(crate) admission: Admission,
    closing: VecDeque<(u64, ConnId)>,
    pub(crate) now_ms: u64,
    requests: u64,
    withdrawn: u64,
    shut: bool,
}

impl<C: Connections> Offloader<C> {
    /// An offloader without rules. Rules that are in the cards already are not
    /// its own, and it never touches them.
    pub fn new(config: OffloadConfig, world: C) -> Self {
        let ports = config.ports.iter().enumerate().map(|(at, port_config)| {
            let port = PortId(at as u16);
            let sizes = |tables: PortTables<'_>| (tables.marks.size(), tables.queues.shared());
            let sizes = world.port(port).map_or((0, 0..0), sizes);
            let budget = Budget::new(config.admission.insertions_per_second);
            PortRules::new(port, port_config, sizes, budget)
        });
        Self {
            ports: ports.collect(),
            world,
            admission: Admission::new(config.admission.clone()),
            config,
            entries: BTreeMap::new(),
            audited: None,
            counted: None,
            suspects: BTreeSet::new(),
            unmatched: Unmatched::default(),
            routes: Routes::default(),
            entries_ms: 0,
            orphaned: 0,
            closing: VecDeque::new(),
            now_ms: 0,
            requests: 0,
            withdrawn: 0,
            shut: false,
        }
    }

    /// Measures from now on what a creation takes, by `clock` (nanoseconds from
    /// any start), and asks a slow card less often.
    pub fn measure(&mut self, clock: fn() -> u64) {
        self.ports.iter_mut().for_each(|rules| rules.clock = Some(clock));
    }

    /// Takes over rules of `port` that were made elsewhere: those that
    /// [`probe`](crate::probe) could not destroy, or one behind all others that
    /// says where misses go. They stay until [`shutdown`](Self::shutdown).
    pub fn adopt(&mut self, port: PortId, rules: Vec<RuleHandle>) {
        if let Some(own) = self.ports.get_mut(usize::from(port.0)) {
            rules.into_iter().for_each(|handle| own.adopt(handle));
        }
    }

    /// It is `now_ms`, by which requests are judged until the next tick.
    pub(crate) fn begin(&mut self, now_ms: u64) {
        self.now_ms = now_ms;
    }

    /// What a worker or the keeper has to say of `conn`.
    pub fn request(&mut self, conn: ConnId, reason: Offload) {
        self.requests += u64::from(!matches!(reason, Offload::Seen(_) | Offload::Expired));
        match reason {
            Offload::Expired if self.is_expired(conn) => self.withdraw(conn),
            // A packet has come since, or the id is another connection's by now.
            Offload::Expired => {}
            Offload::Seen(packets) => self.seen(conn, packets),
            Offload::Wanted => self.want(conn),
            Offload::Closing => self.close(conn),
            Offload::Reopened => self.reopen(conn),
        }
    }

    /// Whether the timeout of `conn` has passed.
    fn is_expired(&self, conn: ConnId) -> bool {
        let idle_ms = self.world.idle_ms(conn, self.now_ms);
        let timeout_ms = self.world.timeout_ms(conn).map(u64::from);
        idle_ms.zip(timeout_ms).is_some_and(|(idle_ms, timeout_ms)| idle_ms >= timeout_ms)
    }

    /// `conn` looks idle: its rules are destroyed. When no packet can refer to
    /// them any more, its timeout starts anew if packets may have come unseen
    /// (encoding `queue`), and it may be removed.
    ///
    /// With `rewrite` only the card knows whether it is: its rules' counters
    /// are read first, and decide.
    pub fn withdraw(&mut self, conn: ConnId) {
        if self.is_rewritten(conn) {
            self.suspects.insert(conn);
            return;
        }
        if let Some(entry) = self.entries.get_mut(&conn) {
            entry.idle = true;
        }
        self.withdraw_rules(conn, true);
    }

    pub(crate) fn is_shut(&self) -> bool {
        self.shut
    }

    /// Does what is due at `now_ms`: settles, destroys, creates. `flows` by
    /// `PortId`; a port that is missing there is left alone.
    pub fn tick(&mut self, now_ms: u64, flows: &mut [&mut dyn FlowPort]) {
        self.now_ms = now_ms;
        self.close_due();
        self.audit();
        self.settle();
        // What is put in line in this turn the card has only at its end.
        self.watch(flows);
        self.reroute();
        for (rules, port) in self.ports.iter_mut().zip(flows.iter_mut()) {
            rules.prepare(self.world.station(rules.port).map(|(mac, _)| mac), *port, now_ms);
        }
        self.decide();
        let budget = self.config.destroys_per_tick;
        for (rules, port) in self.ports.iter_mut().zip(flows.iter_mut()) {
            rules.destroy(*port, budget, now_ms);
        }
        for (at, port) in flows.iter_mut().enumerate() {
            self.create(at, *port, now_ms);
            self.finish(at, *port);
        }
    }

    /// Hands over what is in line, and withdraws the rules that the card could
    /// not create after all.
    fn finish(&mut self, at: usize, flows: &mut dyn FlowPort) {
        let Some(rules) = self.ports.get_mut(at) else { return };
        let failed = rules.finish(flows, self.now_ms);
        for (conn, direction) in failed {
            if let Some(entry) = self.entries.get_mut(&conn) {
                if entry.installed(direction).is_some() {
                    self.withdraw_rules(conn, false);
                }
            }
        }
    }

    /// Destroys every rule it owns, and no other. Returns how many the cards
    /// would not destroy after several tries; those are still owned, and
    /// another call tries again. Requests are ignored from now on; all
    /// connections are served in software.
    pub fn shutdown(&mut self, flows: &mut [&mut dyn FlowPort]) -> usize {
        self.shut = true;
        let all: Vec<ConnId> = self.entries.keys().copied().collect();
        for conn in all {
            self.withdraw_rules(conn, true);
        }
        let Self { world, ports, .. } = self;
        for (rules, port) in ports.iter_mut().zip(flows.iter_mut()) {
            let Some(tables) = world.port(rules.port) else { continue };
            for _ in 0..SHUTDOWN_TRIES {
                rules.destroy_all(*port, tables, self.now_ms);
            }
        }
        // Their tags mean nothing any more and are not used again, so nothing
        // is left to wait for.
        for (conn, entry) in std::mem::take(&mut self.entries) {
            if entry.unseen {
                self.world.rearm(conn, self.now_ms);
            }
            self.world.let_go(conn, true);
        }
        self.closing.clear();
        self.ports.iter().map(PortRules::doomed).sum()
    }

    /// What there is and what has been done.
    #[must_use]
    pub fn stats(&self) -> OffloadStats {
        let mut stats = OffloadStats {
            policy: self.config.admission.policy,
            admission: self.admission.counters(),
            connections: self.entries.len(),
            requests: self.requests,
            withdrawn: self.withdrawn,
            orphaned: self.orphaned,
            ports: self.ports.iter().map(PortStats::of).collect(),
        };
        for entry in self.entries.values() {
            for direction in Direction::BOTH {
                count(&mut stats, direction, entry.stage(direction));
            }
        }
        stats
    }

    pub(crate) fn want(&mut self, conn: ConnId) {
        if self.entries.contains_key(&conn) {
            return;
        }
        let key = self.key(conn);
        if let Some(key) = key {
            self.admission.admit(key, self.now_ms);
        }
        let mut entry = Entry::new(key);
        if key.is_some_and(|key| self.unmatched.is_known(conn, key.generation)) {
            *entry.not_rewritten_mut(Direction::Forward) = Some(NotRewritten::Unmatched);
        }
        if !self.shut {
            for direction in Direction::BOTH {
                match self.line_up(conn, direction) {
                    Some(stage) => *entry.stage_mut(direction) = stage,
                    None => {
                        entry.may_ask = true;
                        entry.refusal = Some(CardRefusal::Crowded);
                    }
                }
            }
        }
        self.entries.insert(conn, entry);
        self.finish_if_bare(conn);
    }

    /// Puts one direction in line at the port where its packets arrive;
    /// `None`: not now.
    pub(crate) fn line_up(&mut self, conn: ConnId, direction: Direction) -> Option<Stage> {
        let binding = self.world.binding(conn)?;
        if direction == Direction::Reply && binding.forwarding.is_one_way() {
            // There is nothing to match.
            return Some(Stage::Software);
        }
        let path = self.world.path(conn, direction)?;
        let rules = self.ports.get_mut(usize::from(path.arrives.0))?;
        if rules.encoding == Encoding::Off {
            return Some(Stage::Software);
        }
        if rules.line.len() >= self.config.waiting {
            rules.close_ranks(&self.entries, self.now_ms);
        }
        if rules.line.len() >= self.config.waiting {
            rules.done.refused.waiting += 1;
            return None;
        }
        rules.line.push_back((conn, direction));
        Some(Stage::Waiting(path.arrives))
    }

    fn close(&mut self, conn: ConnId) {
        let Some(entry) = self.entries.get_mut(&conn) else {
            return self.world.let_go(conn, true);
        };
        if !entry.has_rules() {
            return self.withdraw_rules(conn, false);
        }
        if entry.closing_ms.is_none() {
            let due = self.now_ms.saturating_add(self.config.linger_ms);
            entry.closing_ms = Some(due);
            self.closing.push_back((due, conn));
        }
    }

    fn close_due(&mut self) {
        while let Some((due, conn)) = self.closing.pop_front() {
            if due > self.now_ms {
                self.closing.push_front((due, conn));
                return;
            }
            if self.entries.get(&conn).is_some_and(|entry| entry.closing_ms == Some(due)) {
                self.withdraw_rules(conn, false);
            }
        }
    }

    /// The backend is the same, so the rules stay right; if it is not, they go.
    fn reopen(&mut self, conn: ConnId) {
        let Some(entry) = self.entries.get_mut(&conn) else { return };
        let moved = entry.held.is_some() && entry.held != self.world.binding(conn);
        // Software must see all of the new handshake.
        if moved || self.is_rewritten(conn) {
            return self.withdraw_rules(conn, false);
        }
        let Some(entry) = self.entries.get_mut(&conn) else { return };
        entry.closing_ms = None;
    }

    /// `unseen`: packets may have come that nobody has counted.
    pub(crate) fn withdraw_rules(&mut self, conn: ConnId, unseen: bool) {
        let Some(entry) = self.entries.get_mut(&conn) else {
            return self.world.let_go(conn, true);
        };
        self.withdrawn += u64::from(!entry.withdrawn);
        entry.withdrawn = true;
        entry.closing_ms = None;
        for direction in Direction::BOTH {
            let stage = entry.stage_mut(direction);
            match std::mem::take(stage) {
                Stage::Software | Stage::Waiting(_) => {}
                Stage::Leaving => *stage = Stage::Leaving,
                Stage::Installed(installed) => {
                    *stage = Stage::Leaving;
                    if let Some(rules) = self.ports.get_mut(usize::from(installed.port.0)) {
                        entry.unseen |= unseen && !matches!(installed.tag, Tag::Mark(_));
                        if installed.tag == Tag::Nothing {
                            self.routes.remove(installed.goal, conn);
                        }
                        rules.doom((conn, direction), installed);
                    }
                }
            }
        }
        if entry.has_rules() {
            if let Some(key) = entry.key {
                self.admission.leaving(key, self.now_ms);
            }
            self.world.withdrawing(conn);
        }
        self.finish_if_bare(conn);
    }

    fn settle(&mut self) {
        let mut free = Vec::new();
        for rules in &mut self.ports {
            if let Some(tables) = self.world.port(rules.port) {
                free.append(&mut rules.settle(tables, self.config.settle_ms, self.now_ms));
            }
        }
        for (conn, direction) in free {
            if let Some(entry) = self.entries.get_mut(&conn) {
                *entry.stage_mut(direction) = Stage::Software;
            }
            self.finish_if_bare(conn);
        }
    }

    /// Lets go of a connection that has no rule, and forgets it unless a
    /// direction is in line.
    pub(crate) fn finish_if_bare(&mut self, conn: ConnId) {
        let Some(entry) = self.entries.get_mut(&conn) else { return };
        if entry.has_rules() {
            return;
        }
        let was_held = entry.held.take().is_some();
        if std::mem::take(&mut entry.unseen) {
            self.world.rearm(conn, self.now_ms);
        }
        if entry.is_waiting() {
            if was_held {
                self.world.let_go(conn, false);
            }
            return;
        }
        let ask_again = entry.withdrawn || entry.may_ask;
        let (key, refusal) = (entry.key, entry.refusal.filter(|_| !entry.withdrawn));
        let idle = entry.idle;
        self.entries.remove(&conn);
        match (key, refusal) {
            (Some(key), _) if idle => self.admission.forget(key),
            (Some(key), Some(why)) => self.admission.refused(key, why, self.now_ms),
            (Some(key), None) => self.admission.left(key, self.now_ms),
            (None, _) => {}
        }
        self.world.let_go(conn, ask_again);
    }
}

impl PortStats {
    fn of(rules: &PortRules) -> Self {
        let mut stats = Self {
            encoding: rules.encoding,
            done: rules.done,
            capacity_learnt: rules.capacity.learnt(),
            unsupported: rules.unsupported.iter().collect(),
            queues: rules.queues.uses().collect(),
            queued: rules.engine.is_queued(),
            mark_instead: rules.has_second_best(),
            tunnels: rules.tunnels(),
            budget: Some(rules.budget.per_second())
                .filter(|budget| budget.is_finite())
                .map(|budget| budget as u64),
            creation_ns: rules.budget.cost_ns().map(|cost| cost as u64),
            ..Self::default()
        };
        stats.now.rules = rules.capacity.rules();
        stats.now.adopted = rules.adopted();
        stats.now.doomed = rules.doomed();
        stats.now.settling = rules.settling();
        stats.now.marks_in_use = rules.marks.in_use();
        stats.now.marks_quarantined = rules.marks.quarantined();
        stats.now.queues_assigned = rules.queues.assigned();
        stats.now.queues = rules.queues.size();
        stats
    }
}

fn count(stats: &mut OffloadStats, direction: Direction, stage: &Stage) {
    let port = match stage {
        Stage::Waiting(port) => *port,
        Stage::Installed(installed) => installed.port,
        Stage::Software | Stage::Leaving => return,
    };
    let Some(port) = stats.ports.get_mut(usize::from(port.0)) else { return };
    match (stage, direction) {
        (Stage::Waiting(_), _) => port.now.pending += 1,
        (_, Direction::Forward) => port.now.rules_forward += 1,
        (_, Direction::Reply) => port.now.rules_reply += 1,
    }
}
