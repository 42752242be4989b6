//! Rules that lead packets to the connections' rules of a port that rewrites, the
//! counts of the rules there, and later reports of the card about them.
use dpdk::flow::{Counters, FlowError, FlowPort, RuleHandle};
use flow::Account;
use wire::Mac;

use super::rule_queue::{Finished, destroy_once};
use super::{Owner, PortRules};
use crate::backoff::{Backoff, Waits};
use crate::encode::Shape;
use crate::encode::rewrite::{entry, guards};
use crate::groups;

/// A card that takes no entry and guards is tried again after 50 ms, then at growing
/// intervals of up to 1 s.
const AGAIN: Waits = Waits::new(50, 1_000);
/// How often a predecessor's rule is tried to be destroyed at once.
const RECOVER_TRIES: usize = 8;
/// Failed creations in a row by which a full card is known.
const FULL_AFTER: u32 = 4;
/// How often the card is asked for idle rules.
const AGED_MS: u64 = 250;

/// Rules that lead packets to the connections' rules, and guards that keep some
/// packets from them.
#[derive(Debug)]
pub(super) struct EntryRules {
    /// Whether connections' rules have AGE.
    ages: bool,
    guards: Vec<RuleHandle>,
    entry: Option<RuleHandle>,
    /// The queues are set up and a predecessor's rules are gone.
    begun: bool,
    again: Backoff,
    /// The card could not create one of these rules after all, or has lost one.
    broken: bool,
    /// The card has lost all of them: the port was reset.
    reset: bool,
    asked_ms: u64,
    /// What the entry had counted when it was last looked at, and how many
    /// connections had gone astray by then.
    entered: u64,
    astray: u64,
    /// Rules in a row that the card could not create after all.
    failures: u32,
}

impl EntryRules {
    /// No rules yet. `ages`: whether connections' rules have AGE.
    pub(super) fn new(ages: bool) -> Self {
        Self {
            ages,
            guards: Vec::new(),
            entry: None,
            begun: false,
            again: Backoff::new(AGAIN),
            broken: false,
            reset: false,
            asked_ms: 0,
            entered: 0,
            astray: 0,
            failures: 0,
        }
    }

    /// Its rules.
    pub(super) fn rules(&self) -> usize {
        self.guards.len() + usize::from(self.entry.is_some())
    }

    /// Whether the card has none of the guards. One rule may be lost, all are
    /// so only if the port was reset.
    fn guards_are_lost(&self, flows: &mut dyn FlowPort) -> bool {
        let is_lost =
            |guard| flows.query(guard).is_err_and(|error| error.errno == FlowError::NOT_FOUND);
        !self.guards.is_empty() && self.guards.iter().all(is_lost)
    }
}

impl PortRules {
    /// Whether connections' rules may be made.
    pub(super) fn is_ready(&self) -> bool {
        !self.rewrites() || self.entry_rules.entry.is_some()
    }

    /// Makes guards and entry, unless they are there. What a predecessor has
    /// left in our groups goes before.
    pub(crate) fn prepare(&mut self, station: Option<Mac>, flows: &mut dyn FlowPort, now_ms: u64) {
        if std::mem::take(&mut self.entry_rules.reset) {
            for label in self.rule_queue.reset() {
                self.done.lost += 1;
                self.destroyed(label);
            }
        }
        if self.entry_rules.broken {
            self.take_down();
            self.entry_rules.again.failed(now_ms);
        }
        let Some(station) = station.filter(|_| self.rewrites()) else { return };
        if self.entry_rules.entry.is_some() || !self.entry_rules.again.may_try(now_ms) {
            return;
        }
        if !self.entry_rules.begun {
            self.reconcile(flows);
            self.rule_queue.set_up(flows, &entry(station));
            if self.rule_queue.is_queued() {
                let Self { encoders, rule_queue, .. } = self;
                encoders.ask_again(&mut |rule| rule_queue.takes(flows, rule));
            }
            self.entry_rules.begun = true;
        }
        match self.build(station, flows, now_ms) {
            Ok(()) => self.entry_rules.again.worked(),
            Err(_) => {
                self.done.refused.other += 1;
                self.take_down();
                self.entry_rules.again.failed(now_ms);
            }
        }
    }

    /// The guards first: no connection's rule may match without them.
    fn build(
        &mut self,
        station: Mac,
        flows: &mut dyn FlowPort,
        now_ms: u64,
    ) -> Result<(), FlowError> {
        for (rule, number) in guards().iter().zip(0..) {
            let handle = self.make(flows, (rule, Shape::Guard(number)), None, now_ms)?;
            self.entry_rules.guards.push(handle);
        }
        let handle = self.make(flows, (&entry(station), Shape::Entry), None, now_ms)?;
        self.entry_rules.entry = Some(handle);
        Ok(())
    }

    /// Guards and entry are to be destroyed, the entry first.
    pub(super) fn take_down(&mut self) {
        self.entry_rules.broken = false;
        let entry = self.entry_rules.entry.take();
        let guards = std::mem::take(&mut self.entry_rules.guards);
        entry.into_iter().chain(guards).for_each(|handle| self.doom_bare(handle));
    }

    /// Whether the card has lost the entry: it isn't there any more (the port was
    /// reset), or has matched nothing since the last time although connections
    /// behind it were found astray.
    pub(crate) fn check_entry(&mut self, flows: &mut dyn FlowPort) {
        let Some(handle) = &self.entry_rules.entry else { return };
        let astray = self.done.astray + self.done.lost;
        match flows.query(handle) {
            Ok(Counters { packets, .. }) => {
                let still = packets == self.entry_rules.entered && astray > self.entry_rules.astray;
                self.entry_rules.broken |= still;
                self.entry_rules.entered = packets;
            }
            Err(error) if error.errno == FlowError::NOT_FOUND => {
                self.entry_rules.broken = true;
                self.entry_rules.reset = self.entry_rules.guards_are_lost(flows);
            }
            Err(_) => {}
        }
        self.entry_rules.astray = astray;
    }

    /// Destroys rules that are in our groups before we have made any: the rules of an
    /// offloader that ended without taking them back.
    fn reconcile(&mut self, flows: &mut dyn FlowPort) {
        for handle in flows.recover(groups::OF_CONNECTIONS) {
            self.done.reconciled += u64::from(destroy_by_force(flows, handle));
        }
    }

    /// Reads what a rule has counted since it was `counted`: packets and bytes, which
    /// count for `account`;
    /// `None`: the card has no such rule.
    pub(super) fn read_counters(
        &mut self,
        (counted, account): (&mut Counters, Option<Account>),
        handle: &RuleHandle,
        flows: &mut dyn FlowPort,
    ) -> Option<Counters> {
        let now = match flows.query(handle) {
            Ok(now) => now,
            Err(error) if error.errno == FlowError::NOT_FOUND => return None,
            Err(_) => *counted,
        };
        let new = Counters {
            packets: now.packets.saturating_sub(counted.packets),
            bytes: now.bytes.saturating_sub(counted.bytes),
        };
        *counted = now;
        self.done.forwarded_packets += new.packets;
        self.done.forwarded_bytes += new.bytes;
        if let Some(account) = account.filter(|_| new.packets > 0) {
            self.counts.ways().carry_many(account, new.packets, new.bytes);
        }
        Some(new)
    }

    /// Notes what rules of spliced connections have sent on.
    pub(super) fn carried(&mut self, new: Option<Counters>) {
        let Counters { packets, bytes } = new.unwrap_or_default();
        self.done.spliced_packets += packets;
        self.done.spliced_bytes += bytes;
    }

    /// The rules whose timeout has passed, says the card; now and then.
    pub(crate) fn aged(&mut self, flows: &mut dyn FlowPort, now_ms: u64) -> Vec<Owner> {
        if !self.entry_rules.ages
            || self.by_handle.is_empty()
            || now_ms < self.entry_rules.asked_ms + AGED_MS
        {
            return Vec::new();
        }
        self.entry_rules.asked_ms = now_ms;
        let aged = flows.query_age().unwrap_or_default();
        aged.iter().filter_map(|value| self.by_handle.get(value)).copied().collect()
    }

    /// A completion says only that a rule could not be created. One is an
    /// accident; several in a row mean that there is no room.
    fn not_created(&mut self, now_ms: u64) {
        self.entry_rules.failures += 1;
        if self.entry_rules.failures < FULL_AFTER {
            self.done.refused.other += 1;
            return self.budget.refused();
        }
        self.done.refused.full += 1;
        self.capacity.refused(now_ms);
    }

    /// Takes note of what the card has completed. Returns the owners of rules
    /// that it could not create.
    pub(crate) fn finish(&mut self, flows: &mut dyn FlowPort, now_ms: u64) -> Vec<Owner> {
        let mut failed = Vec::new();
        for finished in self.rule_queue.finish(flows) {
            match finished {
                Finished::NotCreated(label) => match label.owner {
                    Some((owner, _)) => {
                        self.not_created(now_ms);
                        failed.push(owner);
                    }
                    None => self.entry_rules.broken = true,
                },
                Finished::Created => self.entry_rules.failures = 0,
                Finished::Destroyed(label) => self.destroyed(label),
                Finished::NotDestroyed(label, handle) => self.not_destroyed(label, handle, now_ms),
            }
        }
        self.done.overdue += self.rule_queue.became_overdue(now_ms);
        failed
    }
}

/// Destroys a rule that no connection has, however it was made; whether it is gone.
fn destroy_by_force(flows: &mut dyn FlowPort, mut handle: RuleHandle) -> bool {
    for _ in 0..RECOVER_TRIES {
        match destroy_once(flows, handle) {
            Ok(()) => return true,
            Err(back) => handle = back,
        }
    }
    // It stays in a group that no entry leads to.
    let _ = handle;
    false
}
