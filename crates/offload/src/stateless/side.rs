//! What is known of one port: its card, and the rules of all services there.
use std::collections::BTreeMap;

use dpdk::flow::{Counters, FlowError, FlowPort, RuleHandle};
use flow::{BackendId, ServiceId, StatelessKey};
use service::{Entry, ModeSpec, Service};

use super::hash_rows::{self, RowQueue, row_queue};
use super::leftovers::Leftovers;
use super::pipe::Pipe;
use super::plan::Plan;
use crate::encode::rewrite::Style;
use crate::encode::stateless::Target;
use crate::groups;
use crate::port::rule_queue::Finished;

/// Rules made in one tick on a port, or a predecessor's destroyed: a card may
/// take 305 µs for each.
const BUDGET: usize = 128;

/// How far a card is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Progress {
    /// Everything is as it should be.
    Done,
    /// More can be done in the next tick.
    Tired,
    /// The card has refused something.
    Refused,
}

/// One port.
#[derive(Debug)]
pub(crate) struct Side {
    style: Style,
    /// Why the card takes no such rules at all.
    unsupported: Option<String>,
    leftovers: Leftovers,
    /// The highest group that the card has, once it has been asked.
    highest_group: Option<u32>,
    /// See [`groups::seat`].
    seat: Option<RuleHandle>,
    pub(super) pipes: BTreeMap<ServiceId, Pipe>,
    /// Why services are left to software, or some of their entries.
    reasons: BTreeMap<ServiceId, String>,
    /// What is left of [`BUDGET`] in this tick.
    budget: usize,
    now_ms: u64,
    /// Queues have been asked for.
    queues_asked: bool,
    queue: RowQueue,
}

/// The counts of rules that are gone.
pub(crate) type Past = BTreeMap<BackendId, Counters>;

impl Default for Side {
    fn default() -> Self {
        Self {
            style: Style::BEST,
            unsupported: None,
            leftovers: Leftovers::default(),
            highest_group: None,
            seat: None,
            pipes: BTreeMap::new(),
            reasons: BTreeMap::new(),
            budget: 0,
            now_ms: 0,
            queues_asked: false,
            queue: row_queue(),
        }
    }
}

impl Side {
    /// Rules in the card.
    pub(crate) fn rules(&self) -> usize {
        let pipes: usize = self.pipes.values().map(Pipe::rules).sum();
        pipes + usize::from(self.seat.is_some()) + self.leftovers.len()
    }

    /// Whether the card carries `service` out, or why not, or not wholly;
    /// `None`: there is nothing to carry out.
    pub(crate) fn state(&self, service: ServiceId) -> Option<Result<(), &str>> {
        let all = self.pipes.get(&service).is_some_and(|pipe| !pipe.gates.is_empty());
        match self.unsupported.as_ref().or_else(|| self.reasons.get(&service)) {
            Some(reason) => Some(Err(reason)),
            None => all.then_some(Ok(())),
        }
    }

    /// Destroys what a predecessor has left. Returns how many rules are gone, and whether
    /// nothing is left; else `services` get a reason.
    pub(crate) fn begin<'a>(
        &mut self,
        services: impl Iterator<Item = &'a Service>,
        flows: &mut dyn FlowPort,
        now_ms: u64,
    ) -> (usize, Progress) {
        (self.budget, self.now_ms) = (BUDGET, now_ms);
        let gone = self.leftovers.clear(&mut self.budget, flows);
        let left = self.leftovers.len();
        if left == 0 {
            return (gone, Progress::Done);
        }
        let reason = format!("{left} rules of a predecessor are still in the card");
        self.reasons.extend(services.map(|service| (service.id(), reason.clone())));
        let tired = self.budget == 0 && gone > 0;
        (gone, if tired { Progress::Tired } else { Progress::Refused })
    }

    /// The highest group that the card has.
    pub(crate) fn highest_group(&mut self, flows: &mut dyn FlowPort) -> u32 {
        *self.highest_group.get_or_insert_with(|| groups::highest(flows))
    }

    /// The services that have no rule in the card.
    pub(crate) fn without_rules(&self) -> impl Iterator<Item = ServiceId> {
        self.pipes
            .iter()
            .filter(|(_, pipe)| pipe.rules() == 0 && pipe.rows.is_gone())
            .map(|(service, _)| *service)
    }

    /// Brings `plans` into the card, or notes why that can't be done. Services
    /// without a plan have left the configuration: their rules go.
    pub(crate) fn bring(
        &mut self,
        plans: Vec<(&Service, Result<Plan, String>)>,
        flows: &mut dyn FlowPort,
        past: &mut Past,
    ) -> Progress {
        if self.unsupported.is_some() {
            return Progress::Done;
        }
        let by_address = |(service, _): &(&Service, _)| {
            matches!(service.mode(), ModeSpec::Stateless(StatelessKey::Source))
        };
        let by_hash =
            |service: &Service| matches!(service.mode(), ModeSpec::Stateless(StatelessKey::Crc32));
        let hashed = plans.iter().map(|(service, _)| *service).find(|service| by_hash(service));
        if let (false, Some(service)) = (self.queues_asked, hashed) {
            self.queues_asked = true;
            hash_rows::set_up(service, flows);
        }
        if self.seat.is_none() && plans.iter().any(by_address) {
            self.seat = flows.create(&groups::seat()).ok();
        }
        self.finish(flows, past);
        let mut progress = Progress::Done;
        for (service, pipe) in &mut self.pipes {
            if plans.iter().any(|(planned, _)| planned.id() == *service) {
                continue;
            }
            pipe.empty(*service, (flows, &mut self.queue), self.now_ms, past);
            self.reasons.remove(service);
            let waits = !pipe.rows.is_gone();
            progress = progress.max(match (pipe.rules(), waits) {
                (_, true) => Progress::Tired,
                (0, false) => Progress::Done,
                _ => Progress::Refused,
            });
        }
        for (service, plan) in plans {
            let (plan, reason) = match plan {
                Ok(plan) => (plan, None),
                Err(reason) => (Plan::default(), Some(reason)),
            };
            let outcome = self.fulfil(service, &plan, flows, past);
            let refused = outcome.as_ref().err().map(ToString::to_string);
            // A card without such tables stays without them, and that keeps no other
            // service waiting.
            let lasting = |error: &FlowError| error.errno == FlowError::NOT_SUPPORTED;
            let lasting = by_hash(service) && outcome.is_err_and(|error| lasting(&error));
            if !lasting && (self.budget == 0 || !self.is_as(service.id(), &plan)) {
                progress = progress.max(Progress::Tired);
            }
            if refused.is_some() && self.unsupported.is_none() && !lasting {
                progress = Progress::Refused;
            }
            match reason.or(refused) {
                Some(reason) => self.reasons.insert(service.id(), reason),
                None => self.reasons.remove(&service.id()),
            };
        }
        self.finish(flows, past);
        progress
    }

    /// Takes note of what the card has completed of rows.
    fn finish(&mut self, flows: &mut dyn FlowPort, past: &mut Past) {
        for finished in self.queue.finish(flows) {
            let service = match &finished {
                Finished::Created => continue,
                Finished::NotCreated((service, _))
                | Finished::Destroyed((service, _))
                | Finished::NotDestroyed((service, _), _) => service,
            };
            if let Some(pipe) = self.pipes.get_mut(service) {
                pipe.rows.finished(finished, (flows, &mut self.queue), self.now_ms, past);
            }
        }
    }

    /// Reads what the rules have counted.
    pub(crate) fn count(&mut self, flows: &mut dyn FlowPort) {
        for installed in self.pipes.values_mut().flat_map(|pipe| &mut pipe.entries) {
            if let Ok(counters) = flows.query(&installed.handle) {
                installed.counters = counters;
            }
        }
        self.pipes.values_mut().for_each(|pipe| pipe.rows.count(flows));
    }

    /// Destroys every rule.
    pub(crate) fn shutdown(&mut self, flows: &mut dyn FlowPort, past: &mut Past) {
        let mut all = usize::MAX;
        self.leftovers.clear(&mut all, flows);
        // Once for the rows, and once for the tables that have none any more.
        for _ in 0..2 {
            for (service, pipe) in &mut self.pipes {
                pipe.empty(*service, (flows, &mut self.queue), self.now_ms, past);
            }
            self.finish(flows, past);
        }
        if let Some(Err((handle, _))) = self.seat.take().map(|seat| flows.destroy(seat)) {
            self.seat = Some(handle);
        }
    }

    /// Makes the missing rules, then destroys those that are not wanted any more.
    fn fulfil(
        &mut self,
        service: &Service,
        plan: &Plan,
        flows: &mut dyn FlowPort,
        past: &mut Past,
    ) -> Result<(), FlowError> {
        let v4 = service.vip().is_ipv4();
        let now_ms = self.now_ms;
        let Self { style, pipes, budget, unsupported, queue, .. } = self;
        let pipe = pipes.entry(service.id()).or_default();
        if plan.gates.is_empty() {
            pipe.empty(service.id(), (flows, queue), now_ms, past);
            return Ok(());
        }
        let rows = pipe.rows.bring(service, plan, (flows, queue), budget, now_ms);
        if rows.is_err() && pipe.rows.len() == 0 {
            // Without a row software serves all packets.
            pipe.empty(service.id(), (flows, queue), now_ms, past);
            return rows;
        }
        let mut outcome = rows.and(pipe.add_entries(v4, plan, (flows, style, budget)));
        if let (Err(error), true) = (&outcome, pipe.rules() == 0) {
            // The reason is neither a lack of room nor a passing refusal.
            if pipe.first_entry(v4, plan, *style).is_some_and(|rule| flows.validate(&rule).is_err())
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
        let Some(pipe) = self.pipes.get(&service) else { return plan.gates.is_empty() };
        let served = |(entry, target): &(Entry, Target)| {
            pipe.entries.iter().any(|own| own.serves(entry, target))
        };
        pipe.rows.is_as(plan)
            && pipe.entries.len() == plan.entries.len()
            && plan.entries.iter().all(served)
            && pipe.gates.len() == plan.gates.len()
            && pipe.guards.len() == plan.guards.len()
    }
}
