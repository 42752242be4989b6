//! The owner of the rules of stateless services: it brings the classes of a service
//! into every NIC that can carry them out.
//!
//! When a backend fails its entries are replaced one by one, each made before the old
//! one is broken: old and new match the same clients on different levels
//! (priorities), so that at every moment a packet goes to the old backend or the new
//! one. Packets that no entry covers reach software, which does the same to them.
//!
//! Before it makes the first rule, it destroys the rules that a predecessor has left
//! in the card: the gates first.
mod fixed_rules;
mod hash_rows;
mod leftovers;
mod pipe;
mod plan;
mod side;
mod stats;

use std::sync::Arc;

use dpdk::flow::{Counters, FlowPort};
use flow::{PortId, ServiceId};
use service::Entry;
use state::{Shared, Snapshot};

use self::pipe::Installed;
use self::plan::plan;
use self::side::{Past, Progress, Side};
pub use self::stats::{PortState, StatelessStats};
use crate::groups::ServiceGroups;

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

/// Owns the rules of stateless services on all ports. It knows no threads:
/// [`tick`](Self::tick) is called about once a millisecond, before that of the
/// rules of connections.
#[derive(Debug)]
pub struct StatelessRules {
    shared: Arc<Shared>,
    /// The snapshot and the changes of next hops that the rules were last made for.
    seen: Option<(Arc<Snapshot>, u64)>,
    retry_ms: Option<u64>,
    next_count_ms: u64,
    sides: Vec<Side>,
    groups: ServiceGroups,
    /// The counts of rules that are gone.
    past: Past,
    reconciled: usize,
}

impl StatelessRules {
    /// An owner without rules.
    #[must_use]
    pub fn new(shared: Arc<Shared>) -> Self {
        let sides = shared.ports().iter().map(|_| Side::default()).collect();
        Self {
            shared,
            seen: None,
            retry_ms: None,
            next_count_ms: 0,
            sides,
            groups: ServiceGroups::default(),
            past: Past::new(),
            reconciled: 0,
        }
    }

    /// Brings changed services and next hops into the cards. `flows` by [`PortId`]; a
    /// port that is missing there is left alone.
    pub fn tick(&mut self, now_ms: u64, flows: &mut [&mut dyn FlowPort]) {
        let snapshot = self.shared.snapshot();
        let changes = self.shared.neighbours().changes();
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
        for (side, flows) in self.sides.iter_mut().zip(flows.iter_mut()) {
            side.shutdown(*flows, &mut self.past);
        }
        self.rules()
    }

    /// The present state, and the counts of the cards.
    #[must_use]
    pub fn stats(&self) -> StatelessStats {
        let snapshot = self.shared.snapshot();
        let services = snapshot.services.services().iter().filter(|s| s.is_stateless());
        let ports = services.map(|service| (service.id(), self.ports(service.id()))).collect();
        StatelessStats {
            rules: self.rules(),
            reconciled: self.reconciled,
            held: self.held().collect(),
            ports,
            past: self.past.clone(),
        }
    }

    /// Rules in all cards.
    pub(crate) fn rules(&self) -> usize {
        self.sides.iter().map(Side::rules).sum()
    }

    fn held(&self) -> impl Iterator<Item = Held> {
        let pipes = (0..).zip(&self.sides).flat_map(|(port, side)| {
            side.pipes.iter().map(move |(service, pipe)| (PortId(port), *service, pipe))
        });
        pipes.flat_map(|(port, service, pipe)| {
            let entries =
                pipe.entries.iter().map(|Installed { entry, counters, .. }| (*entry, *counters));
            let held = entries.chain(pipe.rows.entries());
            held.map(move |(entry, counters)| Held { port, service, entry, counters })
        })
    }

    /// The ports whose cards carry `service` out, and why others don't.
    fn ports(&self, service: ServiceId) -> Vec<PortState> {
        let state = |side: &Side| side.state(service).map(|state| state.map_err(str::to_owned));
        (0..)
            .map(PortId)
            .zip(&self.sides)
            .filter_map(|(port, side)| Some((port, state(side)?)))
            .collect()
    }

    /// Whether every card holds what it should.
    fn bring(
        &mut self,
        snapshot: &Snapshot,
        now_ms: u64,
        flows: &mut [&mut dyn FlowPort],
    ) -> Progress {
        let Self { shared, sides, groups, past, reconciled, .. } = self;
        let mut progress = Progress::Done;
        let services = || snapshot.services.services().iter().filter(|s| s.is_stateless());
        for (port, (side, flows)) in (0..).map(PortId).zip(sides.iter_mut().zip(flows.iter_mut())) {
            let (gone, begun) = side.begin(services(), *flows, now_ms);
            *reconciled += gone;
            if begun > Progress::Done {
                progress = progress.max(begun);
                continue;
            }
            let plans = services().map(|service| {
                let group = || {
                    let highest = side.highest_group(*flows);
                    let none = || format!("the card has groups up to {highest}, and none is free");
                    groups.take((port, service.id()), highest).ok_or_else(none)
                };
                (service, plan((shared, snapshot), service, port, now_ms, group))
            });
            let plans = plans.collect();
            progress = progress.max(side.bring(plans, *flows, past));
            for service in side.without_rules() {
                groups.release((port, service));
            }
        }
        progress
    }

    fn count(&mut self, flows: &mut [&mut dyn FlowPort]) {
        for (side, flows) in self.sides.iter_mut().zip(flows.iter_mut()) {
            side.count(*flows);
        }
    }
}
