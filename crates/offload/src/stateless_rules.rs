//! The owner of the rules of stateless services: what the classes of a service
//! say is brought into every NIC that can carry it out.
//!
//! When a backend fails its entries are replaced one by one, each made before
//! the old one is broken: old and new match the same clients on different
//! levels (priorities), so that at every moment a packet goes to the old
//! backend or the new one. What no entry covers reaches software, which does
//! the same.
use std::collections::BTreeMap;
use std::sync::Arc;

use dpdk::flow::{Counters, FlowError, FlowPort, Rule, RuleHandle};
use pipeline::{PortId, Shared, Snapshot};
use service::{BackendId, Entry, Service, ServiceId};

use crate::fixed_rules::FixedRules;
use crate::steering_rule::{self, Dialect, Target};

/// Priorities of entries: rules that overlap have different ones. Priority 0
/// is that of the guards.
const LEVELS: std::ops::RangeInclusive<u32> = 1..=4;
/// Rules made on a port in one tick: a card may take 305 µs for each.
const CREATES: usize = 128;
/// How long a card that refused something is left alone, in milliseconds.
const PATIENCE_MS: u64 = 1000;
/// How often counters are read, in milliseconds.
const COUNTS_MS: u64 = 500;

/// An entry as a NIC holds it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Held {
    /// The port.
    pub port: PortId,
    /// The service.
    pub service: ServiceId,
    /// The clients, and their backend.
    pub entry: Entry,
    /// What it has matched, as last read.
    pub counters: Counters,
}

/// An entry's rule.
#[derive(Debug)]
struct Installed {
    entry: Entry,
    target: Target,
    level: u32,
    handle: RuleHandle,
    counters: Counters,
}

/// The rules of one service on one port.
#[derive(Debug, Default)]
struct Pipe {
    gates: FixedRules,
    guards: FixedRules,
    entries: Vec<Installed>,
}

/// What a pipe should be.
#[derive(Default)]
struct Plan {
    group: u32,
    gates: Vec<Rule>,
    guards: Vec<Rule>,
    entries: Vec<(Entry, Target)>,
}

/// How far the cards are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Progress {
    /// Everything is as it should be.
    Done,
    /// More can be made in the next tick.
    Tired,
    /// A card has refused something.
    Refused,
}

/// What is known of one port.
#[derive(Debug)]
struct Side {
    dialect: Dialect,
    /// Why the card takes no such rules at all.
    unsupported: Option<String>,
    /// See [`steering_rule::seat`].
    seat: Option<RuleHandle>,
    pipes: BTreeMap<ServiceId, Pipe>,
    /// Why services are left to software, or some of their entries.
    reasons: BTreeMap<ServiceId, String>,
    /// Rules that may still be made in this tick.
    budget: usize,
}

/// Owns the rules of stateless services on all ports. It knows no threads:
/// somebody calls [`tick`](Self::tick) about once a millisecond, before that of
/// the rules of connections.
#[derive(Debug)]
pub struct StatelessRules {
    shared: Arc<Shared>,
    /// What the rules were last made for.
    seen: Option<(Arc<Snapshot>, u64)>,
    retry_ms: Option<u64>,
    next_count_ms: u64,
    sides: Vec<Side>,
    /// What rules that are gone had counted.
    past: BTreeMap<BackendId, Counters>,
}

impl StatelessRules {
    /// An owner without rules.
    #[must_use]
    pub fn new(shared: Arc<Shared>) -> Self {
        let side = |_: &_| Side {
            dialect: Dialect::Modify,
            unsupported: None,
            seat: None,
            pipes: BTreeMap::new(),
            reasons: BTreeMap::new(),
            budget: 0,
        };
        let sides = shared.ports.iter().map(side).collect();
        let past = BTreeMap::new();
        Self { shared, seen: None, retry_ms: None, next_count_ms: 0, sides, past }
    }

    /// Brings what has changed since, services or next hops, into the cards.
    /// `flows` by [`PortId`]; a port that is missing there is left alone.
    pub fn tick(&mut self, now_ms: u64, flows: &mut [&mut dyn FlowPort]) {
        let snapshot = self.shared.snapshot.load_full();
        let changes = self.shared.neighbours.changes();
        let same =
            |(old, count): &(Arc<Snapshot>, u64)| Arc::ptr_eq(old, &snapshot) && *count == changes;
        let due = self.retry_ms.is_some_and(|due| now_ms >= due);
        if due || !self.seen.as_ref().is_some_and(same) {
            let done = self.bring(&snapshot, now_ms, flows);
            self.retry_ms = match done {
                Progress::Done => None,
                Progress::Tired => Some(now_ms),
                Progress::Refused => Some(now_ms + PATIENCE_MS),
            };
            self.seen = Some((snapshot, changes));
        }
        if now_ms >= self.next_count_ms {
            self.next_count_ms = now_ms + COUNTS_MS;
            self.count(flows);
        }
    }

    /// Destroys every rule. Returns how many the cards would not destroy.
    pub fn shutdown(&mut self, flows: &mut [&mut dyn FlowPort]) -> usize {
        for (side, port) in self.sides.iter_mut().zip(flows.iter_mut()) {
            for pipe in side.pipes.values_mut() {
                pipe.empty(*port, &mut self.past);
            }
            if let Some(Err((handle, _))) = side.seat.take().map(|seat| port.destroy(seat)) {
                side.seat = Some(handle);
            }
        }
        self.rules()
    }

    /// Rules in all cards.
    #[must_use]
    pub fn rules(&self) -> usize {
        let pipes = self.sides.iter().flat_map(|side| side.pipes.values());
        let seats = self.sides.iter().filter(|side| side.seat.is_some());
        pipes.map(Pipe::rules).sum::<usize>() + seats.count()
    }

    /// Every entry in every card.
    pub fn held(&self) -> impl Iterator<Item = Held> {
        let pipes = (0..).zip(&self.sides).flat_map(|(port, side)| {
            side.pipes.iter().map(move |(service, pipe)| (PortId(port), *service, pipe))
        });
        pipes.flat_map(|(port, service, pipe)| {
            pipe.entries.iter().map(move |installed| {
                let Installed { entry, counters, .. } = *installed;
                Held { port, service, entry, counters }
            })
        })
    }

    /// What the cards have sent to `backend` so far, as last read.
    #[must_use]
    pub fn sent_to(&self, backend: BackendId) -> Counters {
        let now = self.held().filter(|held| held.entry.backend == backend);
        let past = self.past.get(&backend).copied().unwrap_or_default();
        now.fold(past, |sum, held| sum_of(sum, held.counters))
    }

    /// The ports whose cards carry `service` out, and why others don't, or not
    /// wholly.
    pub fn ports(&self, service: ServiceId) -> impl Iterator<Item = (PortId, Result<(), &str>)> {
        (0..).zip(&self.sides).filter_map(move |(port, side)| {
            let reason = side.unsupported.as_ref().or_else(|| side.reasons.get(&service));
            let all = side.pipes.get(&service).is_some_and(|pipe| !pipe.gates.is_empty());
            match reason {
                Some(reason) => Some((PortId(port), Err(reason.as_str()))),
                None => all.then_some((PortId(port), Ok(()))),
            }
        })
    }

    /// Whether everything is as it should be.
    fn bring(
        &mut self,
        snapshot: &Snapshot,
        now_ms: u64,
        flows: &mut [&mut dyn FlowPort],
    ) -> Progress {
        let mut progress = Progress::Done;
        let services = || snapshot.services.services().iter().filter(|s| s.is_stateless());
        for (number, flows) in (0..).zip(flows.iter_mut()) {
            let unsupported = self.sides.get(usize::from(number));
            if unsupported.is_none_or(|side| side.unsupported.is_some()) {
                continue;
            }
            let plans: Vec<(ServiceId, Result<Plan, String>)> = services()
                .map(|service| {
                    (service.id(), plan(&self.shared, snapshot, service, PortId(number), now_ms))
                })
                .collect();
            let Some(side) = self.sides.get_mut(usize::from(number)) else { continue };
            side.budget = CREATES;
            if side.seat.is_none() && !plans.is_empty() {
                side.seat = flows.create(&steering_rule::seat()).ok();
            }
            for ((id, plan), service) in plans.into_iter().zip(services()) {
                let (plan, reason) = match plan {
                    Ok(plan) => (plan, None),
                    Err(reason) => (Plan::default(), Some(reason)),
                };
                let v4 = service.vip().is_ipv4();
                let outcome = side.fulfil(id, v4, &plan, *flows, &mut self.past);
                let refused = outcome.as_ref().err().map(ToString::to_string);
                if side.budget == 0 || !side.is_as(id, &plan) {
                    progress = progress.max(Progress::Tired);
                }
                if refused.is_some() && side.unsupported.is_none() {
                    progress = Progress::Refused;
                }
                match reason.or(refused) {
                    Some(reason) => side.reasons.insert(id, reason),
                    None => side.reasons.remove(&id),
                };
            }
        }
        progress
    }

    fn count(&mut self, flows: &mut [&mut dyn FlowPort]) {
        for (side, flows) in self.sides.iter_mut().zip(flows.iter_mut()) {
            for installed in side.pipes.values_mut().flat_map(|pipe| &mut pipe.entries) {
                if let Ok(counters) = flows.query(&installed.handle) {
                    installed.counters = counters;
                }
            }
        }
    }
}

/// What the cards must hold for `service`, for packets that arrive at `port`;
/// or why they can't.
fn plan(
    shared: &Shared,
    snapshot: &Snapshot,
    service: &Service,
    port: PortId,
    now_ms: u64,
) -> Result<Plan, String> {
    let group = steering_rule::group(port, service);
    let mut plan = Plan { group, ..Plan::default() };
    let Some(classes) = service.classes() else { return Ok(plan) };
    let mtu = shared.port(port).map_or(0, |port| port.mtu);
    let mut ways = BTreeMap::new();
    for backend in service.backends() {
        let hop = shared.hop_to(backend.address, now_ms);
        let Some(neighbour) = hop.and_then(|hop| shared.neighbours.get(hop)) else { continue };
        let Some(out) = snapshot.interfaces.get(neighbour.interface) else { continue };
        if out.mtu < mtu {
            let address = backend.address;
            return Err(format!(
                "packets of {mtu} bytes may arrive, and towards {address} only {} fit: software must see which",
                out.mtu
            ));
        }
        // Without an address software asks for it.
        let Some(to) = neighbour.mac else { continue };
        ways.insert(backend.id, (Target { to, from: out.mac, port: out.port }, out.vlan));
    }
    let mut vlans = ways.values().map(|(_, vlan)| *vlan);
    let Some(vlan) = vlans.next() else { return Ok(plan) };
    if vlans.any(|other| other != vlan) {
        return Err("its backends are in different VLANs: tags are software's".to_owned());
    }
    let arriving = snapshot.interfaces.iter().map(|(_, interface)| interface);
    let arriving = arriving.filter(|interface| interface.port == port);
    let (same, other): (Vec<_>, Vec<_>) = arriving.partition(|interface| interface.vlan == vlan);
    if same.is_empty() && !other.is_empty() {
        return Err("clients and backends are in different VLANs: tags are software's".to_owned());
    }
    plan.entries =
        classes.entries().filter_map(|entry| Some((entry, ways.get(&entry.backend)?.0))).collect();
    if !plan.entries.is_empty() && !same.is_empty() {
        plan.guards = steering_rule::guards(snapshot, service, vlan, group);
        plan.gates =
            same.iter().map(|interface| steering_rule::gate(service, interface, group)).collect();
    }
    if plan.gates.is_empty() {
        plan.entries.clear();
    }
    Ok(plan)
}

impl Side {
    /// Makes what is missing, then destroys what is not wanted any more.
    fn fulfil(
        &mut self,
        service: ServiceId,
        v4: bool,
        plan: &Plan,
        flows: &mut dyn FlowPort,
        past: &mut BTreeMap<BackendId, Counters>,
    ) -> Result<(), FlowError> {
        let Self { dialect, pipes, budget, unsupported, .. } = self;
        let pipe = pipes.entry(service).or_default();
        if plan.gates.is_empty() {
            pipe.empty(flows, past);
            return Ok(());
        }
        let mut outcome = pipe.add_entries(v4, plan, (flows, dialect, budget));
        if let (Err(error), true) = (&outcome, pipe.rules() == 0) {
            // It is not for want of room, or a passing refusal.
            if pipe
                .first_entry(v4, plan, *dialect)
                .is_some_and(|rule| flows.validate(&rule).is_err())
            {
                *unsupported = Some(error.to_string());
                return outcome;
            }
        }
        if *budget > 0 {
            pipe.remove_entries(plan, flows, past);
        }
        // Without its guards no entry may be reached.
        let guarded = pipe.guards.add(&plan.guards, flows);
        if guarded.is_ok() {
            pipe.gates.remove(&plan.gates, flows);
            outcome = outcome.and(pipe.gates.add(&plan.gates, flows));
        }
        pipe.guards.remove(&plan.guards, flows);
        outcome.and(guarded)
    }

    /// Whether the card holds what the plan says, and nothing else.
    fn is_as(&self, service: ServiceId, plan: &Plan) -> bool {
        let Some(pipe) = self.pipes.get(&service) else { return plan.entries.is_empty() };
        let served = |(entry, target): &(Entry, Target)| {
            pipe.entries.iter().any(|own| own.serves(entry, target))
        };
        pipe.entries.len() == plan.entries.len()
            && plan.entries.iter().all(served)
            && pipe.gates.len() == plan.gates.len()
            && pipe.guards.len() == plan.guards.len()
    }
}

/// A port's card, how it is spoken to, and how many rules may still be made.
type Card<'a> = (&'a mut dyn FlowPort, &'a mut Dialect, &'a mut usize);

impl Pipe {
    fn rules(&self) -> usize {
        self.gates.len() + self.guards.len() + self.entries.len()
    }

    fn first_entry(&self, v4: bool, plan: &Plan, dialect: Dialect) -> Option<Rule> {
        let (entry, target) = plan.entries.first()?;
        Some(steering_rule::entry(v4, entry, target, (plan.group, *LEVELS.start()), dialect))
    }

    /// Makes the entries that are missing, until the card refuses one.
    fn add_entries(&mut self, v4: bool, plan: &Plan, card: Card<'_>) -> Result<(), FlowError> {
        let (flows, dialect, budget) = card;
        for (entry, target) in &plan.entries {
            if *budget == 0 {
                return Ok(());
            }
            if self.entries.iter().any(|own| own.serves(entry, target)) {
                continue;
            }
            // Without a free level there is a gap, which software fills.
            let Some(level) = self.free_level(entry) else { continue };
            let rule =
                |dialect| steering_rule::entry(v4, entry, target, (plan.group, level), dialect);
            *budget -= 1;
            let handle = match flows.create(&rule(*dialect)) {
                Err(error) if *dialect == Dialect::Modify && error.errno != FlowError::NO_SPACE => {
                    // The first reason is the better one.
                    let handle = flows.create(&rule(Dialect::Legacy)).map_err(|_| error)?;
                    *dialect = Dialect::Legacy;
                    handle
                }
                made => made?,
            };
            let counters = Counters::default();
            let (entry, target) = (*entry, *target);
            self.entries.push(Installed { entry, target, level, handle, counters });
        }
        Ok(())
    }

    /// A level on which no rule matches any client of `entry`.
    fn free_level(&self, entry: &Entry) -> Option<u32> {
        let taken = |level: &u32| {
            self.entries.iter().any(|own| own.level == *level && overlap(&own.entry, entry))
        };
        LEVELS.into_iter().find(|level| !taken(level))
    }

    /// Destroys the entries that the plan doesn't have. What is to take their
    /// place has been made, or the card has refused it.
    fn remove_entries(
        &mut self,
        plan: &Plan,
        flows: &mut dyn FlowPort,
        past: &mut BTreeMap<BackendId, Counters>,
    ) {
        for own in std::mem::take(&mut self.entries) {
            if plan.entries.iter().any(|(entry, target)| own.serves(entry, target)) {
                self.entries.push(own);
            } else if let Err(own) = own.destroy(flows, past) {
                self.entries.push(own);
            }
        }
    }

    /// Destroys all rules, those first through which packets come here.
    fn empty(&mut self, flows: &mut dyn FlowPort, past: &mut BTreeMap<BackendId, Counters>) {
        self.gates.remove(&[], flows);
        self.remove_entries(&Plan::default(), flows, past);
        self.guards.remove(&[], flows);
    }
}

impl Installed {
    /// Whether it does this already.
    fn serves(&self, entry: &Entry, target: &Target) -> bool {
        self.entry == *entry && self.target == *target
    }

    /// Destroys the rule, and remembers what it has counted.
    fn destroy(
        self,
        flows: &mut dyn FlowPort,
        past: &mut BTreeMap<BackendId, Counters>,
    ) -> Result<(), Self> {
        let counters = flows.query(&self.handle).unwrap_or(self.counters);
        let Self { entry, target, level, handle, .. } = self;
        match flows.destroy(handle) {
            Ok(()) => {
                let sum = past.entry(entry.backend).or_default();
                *sum = sum_of(*sum, counters);
                Ok(())
            }
            Err((handle, _)) => Err(Self { entry, target, level, handle, counters }),
        }
    }
}

/// Whether a client can be of both.
fn overlap(one: &Entry, other: &Entry) -> bool {
    (one.value ^ other.value) & one.mask() & other.mask() == 0
}

fn sum_of(one: Counters, other: Counters) -> Counters {
    Counters { packets: one.packets + other.packets, bytes: one.bytes + other.bytes }
}
