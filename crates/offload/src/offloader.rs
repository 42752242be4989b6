//! The owner of all rules: takes requests, and drives every connection's state
//! machine, whose commands it carries out.
pub(crate) mod admission;
mod create;
mod execute;
mod hw_counters;
mod reroute;
mod spreading;
mod unmatched;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::Bound;
use std::sync::Arc;

use ::admission::{Admission, Budget};
use conntrack::ConnId;
use dpdk::flow::{FlowPort, RuleHandle};
use flow::{Direction, PortId};
use state::{Offload, Shared};

use self::reroute::Routes;
use self::unmatched::Unmatched;
use crate::connection::{Command, Connection, Event, Placement};
use crate::encode::NotRewritten;
use crate::environment::{Environment, PortTables};
use crate::port::{Gone, Owner, PortRule, PortRules};
use crate::spread::Spread;
use crate::{OffloadConfig, OffloadStats};

/// How often [`Offloader::shutdown`] asks a card to destroy a rule.
const SHUTDOWN_TRIES: usize = 8;

/// Connections compared with the connection table in one tick.
const AUDITED_PER_TICK: usize = 32;

/// Owns every rule of the process. It knows no threads: its owner calls
/// [`tick`](Self::tick) about once a millisecond on a core of its own, because a card
/// may take hundreds of microseconds for one rule.
#[derive(Debug)]
pub struct Offloader<E = Arc<Shared>> {
    environment: E,
    config: OffloadConfig,
    connections: BTreeMap<ConnId, Connection<PortRule>>,
    ports: Vec<PortRules>,
    admission: Admission,
    /// Next hops of rules whose packets workers don't see.
    routes: Routes,
    unmatched: Unmatched,
    spread: Spread,
    /// How far connections have been looked through for one that leaves its worker.
    spread_from: Option<ConnId>,
    /// Connections that may be idle: their counters are to be read.
    suspects: BTreeSet<ConnId>,
    /// When the rules of connections that have ended go.
    lingering: VecDeque<(u64, ConnId)>,
    /// How far this round has compared connections with the table.
    audited: Option<ConnId>,
    /// How far this round has read counters.
    counted: Option<ConnId>,
    /// When the ports' entry rules were last examined.
    entries_ms: u64,
    /// Commands that are left of a connection's step; empty between two steps.
    commands: Vec<Command<PortRule>>,
    now_ms: u64,
    requests: u64,
    withdrawn: u64,
    /// Connections whose rules went so that another worker gets their packets.
    relieved: u64,
    orphaned: u64,
    shut: bool,
}

impl<E: Environment> Offloader<E> {
    /// An offloader without rules. Rules that are in the cards already are not
    /// its own, and it never touches them.
    pub fn new(config: OffloadConfig, environment: E) -> Self {
        let counts = environment.counts();
        let ports = config.ports.iter().enumerate().map(|(at, port_config)| {
            let port = PortId(at as u16);
            let sizes = |tables: PortTables<'_>| (tables.marks.size(), tables.queues.shared());
            let sizes = environment.tables(port).map_or((0, 0..0), sizes);
            let budget = Budget::new(config.admission.insertions_per_second);
            PortRules::new(port, port_config, sizes, budget, Arc::clone(&counts))
        });
        Self {
            ports: ports.collect(),
            environment,
            admission: Admission::new(config.admission.clone()),
            config,
            connections: BTreeMap::new(),
            routes: Routes::default(),
            unmatched: Unmatched::default(),
            spread: Spread::default(),
            spread_from: None,
            suspects: BTreeSet::new(),
            lingering: VecDeque::new(),
            audited: None,
            counted: None,
            entries_ms: 0,
            commands: Vec::new(),
            now_ms: 0,
            requests: 0,
            withdrawn: 0,
            relieved: 0,
            orphaned: 0,
            shut: false,
        }
    }

    /// Measures from now on what a creation takes, by `clock` (nanoseconds from
    /// any start), and asks a slow card less often.
    pub fn measure(&mut self, clock: fn() -> u64) {
        self.ports.iter_mut().for_each(|rules| rules.measure(clock));
    }

    /// Takes over rules of `port` that were made elsewhere: those that
    /// [`probe`](crate::probe) could not destroy, or one behind all others that
    /// says where misses go. They stay until [`shutdown`](Self::shutdown).
    pub fn adopt(&mut self, port: PortId, rules: Vec<RuleHandle>) {
        if let Some(own) = self.port_mut(port) {
            rules.into_iter().for_each(|handle| own.adopt(handle));
        }
    }

    /// Sets the time to `now_ms`, by which requests are judged until the next tick.
    pub(crate) fn begin(&mut self, now_ms: u64) {
        self.now_ms = now_ms;
    }

    /// Takes a message of a worker or the keeper about `conn`.
    pub fn request(&mut self, conn: ConnId, reason: Offload) {
        self.requests += u64::from(!matches!(reason, Offload::Seen(_) | Offload::Expired));
        match reason {
            Offload::Expired if self.is_expired(conn) => self.withdraw(conn),
            // A packet has come since, or the id belongs to another connection by
            // now.
            Offload::Expired => {}
            Offload::Seen(packets) => self.seen(conn, packets),
            Offload::Wanted => self.want(conn),
            Offload::Closing => {
                let due_ms = self.now_ms.saturating_add(self.config.linger_ms);
                self.step_or_let_go(conn, Event::Closing { due_ms });
            }
            Offload::Recalled => self.step_or_let_go(conn, Event::Withdrawn),
            Offload::Reopened => {
                let binding = self.environment.binding(conn);
                self.step(conn, Event::Reopened { binding });
            }
        }
    }

    /// Whether the timeout of `conn` has passed.
    fn is_expired(&self, conn: ConnId) -> bool {
        let idle_ms = self.environment.idle_ms(conn, self.now_ms);
        let timeout_ms = self.environment.timeout_ms(conn).map(u64::from);
        idle_ms.zip(timeout_ms).is_some_and(|(idle_ms, timeout_ms)| idle_ms >= timeout_ms)
    }

    /// `conn` looks idle: its rules are destroyed. When no packet can refer to
    /// them any more, its timeout starts anew if packets may have come unseen
    /// (encoding `queue`), and it may be removed.
    ///
    /// With `rewrite` only the card knows whether it is: its rules' counters
    /// are read first, and decide.
    pub fn withdraw(&mut self, conn: ConnId) {
        self.step_or_let_go(conn, Event::Idle);
    }

    /// Does what is due at `now_ms`: settles, destroys, creates. `flows` by
    /// `PortId`; a port that is missing there is left alone.
    pub fn tick(&mut self, now_ms: u64, flows: &mut [&mut dyn FlowPort]) {
        self.now_ms = now_ms;
        self.end_lingering();
        self.audit();
        self.settle();
        // The card gets the rules that this turn puts in line only at the turn's end.
        self.watch(flows);
        self.reroute();
        self.spread();
        for (rules, port) in self.ports.iter_mut().zip(flows.iter_mut()) {
            let station = self.environment.station(rules.id()).map(|(mac, _)| mac);
            rules.prepare(station, *port, now_ms);
        }
        self.decide();
        let budget = self.config.destroys_per_tick;
        for (rules, port) in self.ports.iter_mut().zip(flows.iter_mut()) {
            rules.destroy(*port, budget, now_ms);
        }
        for (at, port) in flows.iter_mut().enumerate() {
            self.create(at, *port);
            self.finish(at, *port);
        }
    }

    /// Destroys every rule it owns, and no other. Returns how many the cards
    /// would not destroy after several tries; those are still owned, and
    /// another call tries again. Requests are ignored from now on; all
    /// connections are served in software.
    pub fn shutdown(&mut self, flows: &mut [&mut dyn FlowPort]) -> usize {
        self.shut = true;
        let all: Vec<ConnId> = self.connections.keys().copied().collect();
        for conn in all {
            self.step(conn, Event::Withdrawn);
        }
        let Self { environment, ports, now_ms, .. } = self;
        for (rules, port) in ports.iter_mut().zip(flows.iter_mut()) {
            let Some(tables) = environment.tables(rules.id()) else { continue };
            for _ in 0..SHUTDOWN_TRIES {
                rules.destroy_all(*port, tables, *now_ms);
            }
        }
        // Their tags mean nothing any more and are not used again, so nothing
        // is left to wait for.
        for (conn, connection) in std::mem::take(&mut self.connections) {
            if connection.into_unseen() {
                self.environment.rearm(conn, self.now_ms);
            }
            self.environment.let_go(conn, true);
        }
        self.lingering.clear();
        self.ports.iter().map(PortRules::doomed).sum()
    }

    /// Whether a connection has rules, or waits for some.
    pub(crate) fn has_work(&self) -> bool {
        !self.connections.is_empty()
    }

    /// The present state, and the counts since the start.
    #[must_use]
    pub fn stats(&self) -> OffloadStats {
        OffloadStats {
            policy: self.config.admission.policy,
            admission: self.admission.counters(),
            connections: self.connections.len(),
            requests: self.requests,
            withdrawn: self.withdrawn,
            relieved: self.relieved,
            orphaned: self.orphaned,
            ports: self.ports.iter().map(PortRules::stats).collect(),
        }
    }

    fn port_mut(&mut self, port: PortId) -> Option<&mut PortRules> {
        self.ports.get_mut(usize::from(port.0))
    }

    fn want(&mut self, conn: ConnId) {
        if self.connections.contains_key(&conn) {
            return;
        }
        let key = self.key(conn);
        if let Some(key) = key {
            self.admission.admit(key, self.now_ms);
        }
        let unmatched = key.is_some_and(|key| self.unmatched.is_known(conn, key.generation));
        let not_rewritten = unmatched.then_some(NotRewritten::Unmatched);
        self.connections.insert(conn, Connection::new(key, not_rewritten));
        let placements = self.placements(conn);
        self.step(conn, Event::Wanted(placements));
    }

    /// Where rules for `conn` would be made.
    fn placements(&mut self, conn: ConnId) -> [Placement; 2] {
        if self.shut {
            return [Placement::Software; 2];
        }
        let forward = self.placement((conn, Direction::Forward), None);
        [forward, self.placement((conn, Direction::Reply), Some(forward))]
    }

    /// Where the rule for `owner` would be made: at the port where its packets
    /// arrive. The other direction gets in line there `before` it.
    fn placement(&mut self, owner: Owner, before: Option<Placement>) -> Placement {
        let (conn, direction) = owner;
        let Some(binding) = self.environment.binding(conn) else { return Placement::Crowded };
        let spliced = self.environment.added(conn).is_some();
        if direction == Direction::Forward && spliced {
            // Software must see what the client asks for next.
            return Placement::Software;
        }
        if direction == Direction::Reply && binding.forwarding.is_one_way() {
            // There is nothing to match.
            return Placement::Software;
        }
        let path = self.environment.path(conn, direction);
        let Some(port) = path.map(|path| path.arrives) else { return Placement::Crowded };
        let Self { ports, connections, config, .. } = self;
        let Some(rules) = ports.get_mut(usize::from(port.0)) else { return Placement::Crowded };
        if rules.is_off() || spliced && !rules.rewrites() {
            return Placement::Software;
        }
        let waits = |(conn, direction): Owner| {
            connections.get(&conn).is_some_and(|connection| connection.waits_on(direction, port))
        };
        let more = usize::from(before == Some(Placement::Port(port)));
        match rules.has_room_in_line(more, config.waiting, waits) {
            true => Placement::Port(port),
            false => Placement::Crowded,
        }
    }

    fn end_lingering(&mut self) {
        while let Some((due_ms, conn)) = self.lingering.pop_front() {
            if due_ms > self.now_ms {
                self.lingering.push_front((due_ms, conn));
                return;
            }
            self.step(conn, Event::Lingered { due_ms });
        }
    }

    /// Compares a few connections with the table, by turns.
    fn audit(&mut self) {
        let from = self.audited.map_or(Bound::Unbounded, Bound::Excluded);
        let range = self.connections.range((from, Bound::Unbounded));
        let some: Vec<ConnId> = range.take(AUDITED_PER_TICK).map(|(&conn, _)| conn).collect();
        self.audited = some.last().copied();
        for conn in some {
            let binding = self.environment.binding(conn);
            let established = self.environment.is_established(conn);
            self.step(conn, Event::Audited { binding, established });
        }
    }

    fn settle(&mut self) {
        let mut gone = Vec::new();
        for rules in &mut self.ports {
            if let Some(tables) = self.environment.tables(rules.id()) {
                rules.settle(tables, self.config.settle_ms, self.now_ms, &mut gone);
            }
        }
        for gone in gone {
            match gone {
                Gone::Destroyed((conn, direction)) => self.step(conn, Event::Destroyed(direction)),
                Gone::Settled((conn, direction)) => self.step(conn, Event::Settled(direction)),
            }
        }
    }

    /// Hands over what is in line, and withdraws the rules that the card could
    /// not create after all.
    fn finish(&mut self, at: usize, flows: &mut dyn FlowPort) {
        let Some(rules) = self.ports.get_mut(at) else { return };
        for (conn, direction) in rules.finish(flows, self.now_ms) {
            self.step(conn, Event::NotCreated(direction));
        }
    }
}
