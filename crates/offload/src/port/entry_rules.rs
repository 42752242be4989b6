//! One port's rules of encoding `rewrite`: what leads packets to them, what
//! they are made from, and what they have counted.
use dpdk::flow::{Counters, FlowError, FlowPort, Rule, RuleHandle};
use flow::{Encoding, HopId};
use service::Delivery;
use wire::{Encap, FlowKey, Mac};

use crate::backoff::{Backoff, Waits};
use crate::connection::Tag;
use crate::encode::rewrite::{GROUPS, Plan, RewriteCard, Shape, connection, entry, guards};
use crate::environment::Way;
use crate::mark_fallback::NotRewritten;
use crate::offloader::reroute::Goal;
use crate::port::destroy::Name;
use crate::port::rule_queue::{Destroy, Finished};
use crate::port::{Attempt, Job, Owner, PortRules};
use crate::probe::rewrite::tunnel_example;
use crate::{FlowType, TunnelType};

/// A card that takes no entry and guards is tried again after 50 ms, then ever
/// more seldom up to 1 s.
const AGAIN: Waits = Waits { first_ms: 50, longest_ms: 1_000 };
/// How often a predecessor's rule is tried to be destroyed at once.
const RECOVER_TRIES: usize = 8;
/// Failed creations in a row by which a full card is known.
const FULL_AFTER: u32 = 4;
/// How often the card is asked for idle rules.
const AGED_MS: u64 = 250;

/// What leads packets to the connections' rules, and what keeps some from them.
#[derive(Debug)]
pub(crate) struct Frame {
    pub(crate) card: Option<RewriteCard>,
    /// Tunnels that the card takes by the way the port's rules are made.
    tunnels: [bool; TunnelType::COUNT],
    guards: Vec<RuleHandle>,
    entry: Option<RuleHandle>,
    /// The queues are set up and a predecessor's rules are gone.
    begun: bool,
    again: Backoff,
    /// The card could not create one of these rules after all.
    broken: bool,
    asked_ms: u64,
    /// What the entry had counted when it was last looked at, and how many
    /// connections had gone astray by then.
    entered: u64,
    astray: u64,
    /// Rules in a row that the card could not create after all.
    failures: u32,
}

impl Frame {
    pub(crate) fn new(card: Option<RewriteCard>) -> Self {
        Self {
            tunnels: card.as_ref().map_or([false; TunnelType::COUNT], |card| card.tunnels),
            card,
            guards: Vec::new(),
            entry: None,
            begun: false,
            again: Backoff::new(AGAIN),
            broken: false,
            asked_ms: 0,
            entered: 0,
            astray: 0,
            failures: 0,
        }
    }

    /// Its rules.
    pub(crate) fn rules(&self) -> usize {
        self.guards.len() + usize::from(self.entry.is_some())
    }
}

/// What a rule is made from, beside the connection.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ends {
    /// Where its packets go.
    pub(crate) way: Option<Way>,
    /// Where they come from.
    pub(crate) from: Option<Way>,
    /// The longest IP packet that comes there, in bytes.
    pub(crate) longest: u16,
    pub(crate) goal: Goal,
    /// The tunnel they enter.
    pub(crate) tunnel: Option<Encap>,
    pub(crate) timeout_ms: u32,
}

impl Default for Ends {
    fn default() -> Self {
        let goal = Goal { hop: HopId(0), tunnel: None };
        Self { way: None, from: None, longest: u16::MAX, goal, tunnel: None, timeout_ms: 0 }
    }
}

impl PortRules {
    pub(crate) fn rewrites(&self) -> bool {
        self.encoding == Encoding::Rewrite
    }

    /// Whether connections' rules may be made.
    pub(crate) fn is_ready(&self) -> bool {
        !self.rewrites() || self.frame.entry.is_some()
    }

    /// Makes guards and entry, unless they are there. What a predecessor has
    /// left in our groups goes before.
    pub(crate) fn prepare(&mut self, station: Option<Mac>, flows: &mut dyn FlowPort, now_ms: u64) {
        if self.frame.broken {
            self.take_down();
            self.frame.again.failed(now_ms);
        }
        let Some(station) = station.filter(|_| self.rewrites()) else { return };
        if self.frame.entry.is_some() || !self.frame.again.may_try(now_ms) {
            return;
        }
        if !self.frame.begun {
            self.reconcile(flows);
            self.engine.set_up(flows, &entry(station));
            self.ask_tunnels(flows);
            self.frame.begun = true;
        }
        match self.build(station, flows, now_ms) {
            Ok(()) => self.frame.again.worked(),
            Err(_) => {
                self.done.refused.other += 1;
                self.take_down();
                self.frame.again.failed(now_ms);
            }
        }
    }

    /// Through a queue a card may take other tunnels than one by one.
    fn ask_tunnels(&mut self, flows: &mut dyn FlowPort) {
        let Some(card) = self.frame.card.as_ref().filter(|_| self.engine.is_queued()) else {
            return;
        };
        for (taken, kind) in self.frame.tunnels.iter_mut().zip(TunnelType::ALL) {
            let rule = tunnel_example(card.style, &card.outputs, kind);
            *taken = rule.is_some_and(|rule| self.engine.takes(flows, &rule));
        }
    }

    /// The tunnels that its rules put packets into.
    pub(crate) fn tunnels(&self) -> Vec<TunnelType> {
        let all = TunnelType::ALL.into_iter().zip(self.frame.tunnels);
        all.filter(|(_, taken)| *taken && self.rewrites()).map(|(kind, _)| kind).collect()
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
            self.frame.guards.push(handle);
        }
        let handle = self.make(flows, (&entry(station), Shape::Entry), None, now_ms)?;
        self.frame.entry = Some(handle);
        Ok(())
    }

    /// Creates a rule and counts it.
    pub(crate) fn make(
        &mut self,
        flows: &mut dyn FlowPort,
        rule: (&Rule, Shape),
        owner: Option<(Owner, Tag)>,
        now_ms: u64,
    ) -> Result<RuleHandle, FlowError> {
        let name = Name::of(owner);
        let handle = self.engine.create(flows, rule, &name, now_ms)?;
        self.done.created += 1;
        self.capacity.created();
        Ok(handle)
    }

    /// Guards and entry are to be destroyed, the entry first.
    pub(crate) fn take_down(&mut self) {
        self.frame.broken = false;
        let entry = self.frame.entry.take();
        let guards = std::mem::take(&mut self.frame.guards);
        entry.into_iter().chain(guards).for_each(|handle| self.doom_bare(handle));
    }

    /// Whether the card has lost the entry: it isn't there any more (the port was
    /// reset), or has matched nothing since the last time although connections
    /// behind it were found astray.
    pub(crate) fn check_entry(&mut self, flows: &mut dyn FlowPort) {
        let Some(handle) = &self.frame.entry else { return };
        let astray = self.done.astray + self.done.lost;
        match flows.query(handle) {
            Ok(Counters { packets, .. }) => {
                let still = packets == self.frame.entered && astray > self.frame.astray;
                self.frame.broken |= still;
                self.frame.entered = packets;
            }
            Err(error) => self.frame.broken |= error.errno == FlowError::NOT_FOUND,
        }
        self.frame.astray = astray;
    }

    /// Destroys what is in our groups although we have made nothing yet: the
    /// rules of an offloader that ended without taking them back.
    fn reconcile(&mut self, flows: &mut dyn FlowPort) {
        for handle in flows.recover(GROUPS) {
            self.done.reconciled += u64::from(destroy_by_force(flows, handle));
        }
    }

    /// The rule for `job`, or why there can be none.
    pub(crate) fn rewriting(&mut self, job: &Job, key: &FlowKey) -> Result<(Rule, Shape), Attempt> {
        let no = |why| Attempt::Refused { asked: false, why: Some(why) };
        if self.keys.contains(key) {
            // Two connections are the same to the card.
            self.done.refused.other += 1;
            return Err(Attempt::Failed { asked: false });
        }
        let Some(card) = &self.frame.card else { return Err(no(NotRewritten::NotEncodable)) };
        let refused = &mut self.done.refused;
        let (Some(way), Some(from)) = (job.ends.way, job.ends.from) else {
            refused.unresolved += 1;
            return Err(Attempt::Failed { asked: false });
        };
        if way.vlan.is_some() || from.vlan.is_some() {
            refused.tagged += 1;
            return Err(no(NotRewritten::Tagged));
        }
        let delivery = job.binding.delivery(job.owner.1);
        let tunnel = job.ends.tunnel.as_ref();
        if matches!(delivery, Some(Delivery::Tunnel(_))) {
            let index = tunnel.map(|encap| TunnelType::of(encap).index());
            let taken = index.and_then(|index| self.frame.tunnels.get(index));
            if taken != Some(&true) {
                refused.not_encodable += 1;
                return Err(no(NotRewritten::NotEncodable));
            }
        }
        if way.mtu.saturating_sub(tunnel.map_or(0, Encap::overhead)) < job.ends.longest {
            refused.mtu += 1;
            return Err(no(NotRewritten::Mtu));
        }
        let Some(output) = card.outputs.get(usize::from(way.port.0)).copied().flatten() else {
            refused.no_output += 1;
            return Err(no(NotRewritten::NoOutput));
        };
        let Some(mac) = way.mac else {
            refused.unresolved += 1;
            return Err(Attempt::Failed { asked: false });
        };
        if card.types.get(FlowType::of(key).index()) != Some(&true) {
            refused.unsupported += 1;
            return Err(no(NotRewritten::Unsupported));
        }
        let rule = delivery.as_ref().and_then(|delivery| {
            let timeout_ms = job.ends.timeout_ms;
            let plan = Plan { key, delivery, tunnel, way: &way, mac, output, timeout_ms };
            connection(&plan, card.style)
        });
        rule.ok_or_else(|| {
            refused.not_encodable += 1;
            no(NotRewritten::NotEncodable)
        })
    }

    /// Reads what a rule has counted since it was `counted`: packets and bytes;
    /// `None`: the card has no such rule.
    pub(crate) fn read(
        &mut self,
        counted: &mut Counters,
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
        Some(new)
    }

    /// The rules whose timeout has passed, says the card; now and then.
    pub(crate) fn aged(&mut self, flows: &mut dyn FlowPort, now_ms: u64) -> Vec<Owner> {
        let ages = self.frame.card.as_ref().is_some_and(|card| card.style.age);
        if !ages || self.by_handle.is_empty() || now_ms < self.frame.asked_ms + AGED_MS {
            return Vec::new();
        }
        self.frame.asked_ms = now_ms;
        let aged = flows.query_age().unwrap_or_default();
        aged.iter().filter_map(|value| self.by_handle.get(value)).copied().collect()
    }

    /// A completion says only that a rule could not be created. One is an
    /// accident; several in a row mean that there is no room.
    fn not_created(&mut self, now_ms: u64) {
        self.frame.failures += 1;
        if self.frame.failures < FULL_AFTER {
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
        for finished in self.engine.finish(flows, now_ms) {
            match finished {
                Finished::NotCreated(name) => match name.owner {
                    Some((owner, _)) => {
                        self.not_created(now_ms);
                        failed.push(owner);
                    }
                    None => self.frame.broken = true,
                },
                Finished::Created => self.frame.failures = 0,
                Finished::Destroyed(name) => self.destroyed(name),
                Finished::NotDestroyed(name, handle) => self.not_destroyed(name, handle, now_ms),
            }
        }
        failed
    }
}

/// Destroys a rule that is nobody's, by the way it was made; whether it is gone.
fn destroy_by_force(flows: &mut dyn FlowPort, mut handle: RuleHandle) -> bool {
    let mut engine = crate::port::rule_queue::Engine::<()>::queued();
    for _ in 0..RECOVER_TRIES {
        handle = match flows.destroy(handle) {
            Ok(()) => return true,
            Err((back, _)) => back,
        };
        handle = match engine.destroy(flows, handle, (), 0) {
            Destroy::Done(()) => return true,
            Destroy::Failed((), back, _) => back,
            Destroy::InLine => match engine.finish(flows, 0).pop() {
                Some(Finished::NotDestroyed((), back)) => back,
                _ => return true,
            },
        };
    }
    // It stays in a group that no entry leads to.
    let _ = handle;
    false
}
