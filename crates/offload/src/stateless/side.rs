//! What is known of one port: its card, and the rules of all services there.
use std::collections::BTreeMap;

use dpdk::flow::{Counters, FlowError, FlowPort, RuleHandle};
use flow::{BackendId, ServiceId, StatelessKey};
use service::{Entry, ModeSpec, Service};

use super::leftovers::Leftovers;
use super::pipe::Pipe;
use super::plan::Plan;
use crate::encode::rewrite::Style;
use crate::encode::stateless::Target;
use crate::groups;

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
}

/// What rules that are gone had counted.
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

    /// Destroys what a predecessor has left. How many rules are gone, and whether
    /// nothing is left; else `services` get a reason.
    pub(crate) fn begin<'a>(
        &mut self,
        services: impl Iterator<Item = &'a Service>,
        flows: &mut dyn FlowPort,
    ) -> (usize, Progress) {
        self.budget = BUDGET;
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
        self.pipes.iter().filter(|(_, pipe)| pipe.rules() == 0).map(|(service, _)| *service)
    }

    /// Brings what `plans` say into the card, or why they can't be said. Services
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
        if self.seat.is_none() && plans.iter().any(by_address) {
            self.seat = flows.create(&groups::seat()).ok();
        }
        let mut progress = Progress::Done;
        for (service, pipe) in &mut self.pipes {
            if !plans.iter().any(|(planned, _)| planned.id() == *service) {
                pipe.empty(flows, past);
                self.reasons.remove(service);
                progress = progress.max(if pipe.rules() == 0 {
                    Progress::Done
                } else {
                    Progress::Refused
                });
            }
        }
        for (service, plan) in plans {
            let (plan, reason) = match plan {
                Ok(plan) => (plan, None),
                Err(reason) => (Plan::default(), Some(reason)),
            };
            let outcome = self.fulfil(service, &plan, flows, past);
            let refused = outcome.as_ref().err().map(ToString::to_string);
            if self.budget == 0 || !self.is_as(service.id(), &plan) {
                progress = progress.max(Progress::Tired);
            }
            if refused.is_some() && self.unsupported.is_none() {
                progress = Progress::Refused;
            }
            match reason.or(refused) {
                Some(reason) => self.reasons.insert(service.id(), reason),
                None => self.reasons.remove(&service.id()),
            };
        }
        progress
    }

    /// Reads what the rules have counted.
    pub(crate) fn count(&mut self, flows: &mut dyn FlowPort) {
        for installed in self.pipes.values_mut().flat_map(|pipe| &mut pipe.entries) {
            if let Ok(counters) = flows.query(&installed.handle) {
                installed.counters = counters;
            }
        }
    }

    /// Destroys every rule.
    pub(crate) fn shutdown(&mut self, flows: &mut dyn FlowPort, past: &mut Past) {
        let mut all = usize::MAX;
        self.leftovers.clear(&mut all, flows);
        for pipe in self.pipes.values_mut() {
            pipe.empty(flows, past);
        }
        if let Some(Err((handle, _))) = self.seat.take().map(|seat| flows.destroy(seat)) {
            self.seat = Some(handle);
        }
    }

    /// Makes what is missing, then destroys what is not wanted any more.
    fn fulfil(
        &mut self,
        service: &Service,
        plan: &Plan,
        flows: &mut dyn FlowPort,
        past: &mut Past,
    ) -> Result<(), FlowError> {
        let v4 = service.vip().is_ipv4();
        let Self { style, pipes, budget, unsupported, .. } = self;
        let pipe = pipes.entry(service.id()).or_default();
        if plan.gates.is_empty() {
            pipe.empty(flows, past);
            return Ok(());
        }
        let mut outcome = pipe.add_entries(v4, plan, (flows, style, budget));
        if let (Err(error), true) = (&outcome, pipe.rules() == 0) {
            // It is not for want of room, or a passing refusal.
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
