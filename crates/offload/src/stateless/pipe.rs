//! The rules of one service on one port, and how they are exchanged: each is
//! made before the one it replaces is broken.
use dpdk::flow::{Counters, FlowError, FlowPort, Rule, RuleHandle};
use flow::ServiceId;
use service::Entry;

use super::hash_rows::{Card, HashRows};
use super::plan::Plan;
use super::side::Past;
use crate::encode::rewrite::Style;
use crate::encode::stateless::{self as encode, Target};
use crate::stateless::fixed_rules::FixedRules;

/// Priorities of entries, behind that of the guards: rules that overlap have
/// different ones.
const LEVELS: std::ops::RangeInclusive<u32> = 1..=4;

/// An entry's rule.
#[derive(Debug)]
pub(crate) struct Installed {
    pub(super) entry: Entry,
    target: Target,
    level: u32,
    pub(super) handle: RuleHandle,
    pub(super) counters: Counters,
}

/// The rules of one service on one port.
#[derive(Debug, Default)]
pub(crate) struct Pipe {
    pub(super) gates: FixedRules,
    pub(super) guards: FixedRules,
    pub(super) entries: Vec<Installed>,
    /// In the place of entries, of a service by a hash.
    pub(super) rows: HashRows,
}

/// A port's card, how it is spoken to, and how many rules may still be made.
pub(super) type RuleMaker<'a> = (&'a mut dyn FlowPort, &'a mut Style, &'a mut usize);

impl Pipe {
    pub(crate) fn rules(&self) -> usize {
        self.gates.len() + self.guards.len() + self.entries.len() + self.rows.len()
    }

    pub(crate) fn first_entry(&self, v4: bool, plan: &Plan, style: Style) -> Option<Rule> {
        let (entry, target) = plan.entries.first()?;
        Some(encode::entry(v4, entry, target, (plan.group, *LEVELS.start()), style))
    }

    /// Makes the entries that are missing, until the card refuses one.
    pub(crate) fn add_entries(
        &mut self,
        v4: bool,
        plan: &Plan,
        maker: RuleMaker<'_>,
    ) -> Result<(), FlowError> {
        let (flows, style, budget) = maker;
        for (entry, target) in &plan.entries {
            if *budget == 0 {
                return Ok(());
            }
            if self.entries.iter().any(|own| own.serves(entry, target)) {
                continue;
            }
            // Without a free level there is a gap, which software fills.
            let Some(level) = self.free_level(entry) else { continue };
            let rule = |style| encode::entry(v4, entry, target, (plan.group, level), style);
            *budget -= 1;
            let handle = match flows.create(&rule(*style)) {
                Err(error) if *style == Style::BEST && error.errno != FlowError::NO_SPACE => {
                    // The first reason is the better one.
                    let handle = flows.create(&rule(Style::LEGACY)).map_err(|_| error)?;
                    *style = Style::LEGACY;
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
    pub(crate) fn remove_entries(
        &mut self,
        plan: &Plan,
        flows: &mut dyn FlowPort,
        past: &mut Past,
    ) {
        for own in std::mem::take(&mut self.entries) {
            if plan.entries.iter().any(|(entry, target)| own.serves(entry, target)) {
                self.entries.push(own);
            } else if let Err(own) = own.destroy(flows, past) {
                self.entries.push(own);
            }
        }
    }

    /// Destroys all rules, those first through which packets come here. Rows are
    /// gone once the card has said so.
    pub(crate) fn empty(
        &mut self,
        service: ServiceId,
        (flows, queue): Card<'_>,
        now_ms: u64,
        past: &mut Past,
    ) {
        self.gates.remove(&[], flows);
        self.remove_entries(&Plan::default(), flows, past);
        self.rows.empty(service, (flows, queue), now_ms);
        self.guards.remove(&[], flows);
    }
}

impl Installed {
    /// Whether it does this already.
    pub(crate) fn serves(&self, entry: &Entry, target: &Target) -> bool {
        self.entry == *entry && self.target == *target
    }

    /// Destroys the rule, and remembers what it has counted.
    fn destroy(self, flows: &mut dyn FlowPort, past: &mut Past) -> Result<(), Self> {
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

pub(crate) fn sum_of(one: Counters, other: Counters) -> Counters {
    Counters { packets: one.packets + other.packets, bytes: one.bytes + other.bytes }
}
