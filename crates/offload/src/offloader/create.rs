//! The line: whose turn it is, and whether the connection is still there then.
use std::ops::Bound;

use admission::CardRefusal;
use conntrack::ConnId;
use dpdk::flow::FlowPort;
use flow::{Direction, PortId};
use service::Delivery;

use crate::connection::{Stage, Tag};
use crate::environment::{Connections, Path};
use crate::mark_fallback::NotRewritten;
use crate::offloader::Offloader;
use crate::offloader::reroute::Goal;
use crate::port::entry_rules::Ends;
use crate::port::{Attempt, Job, Owner};

/// Items of the line looked at in one tick for each rule that may be created:
/// the others cost no call of the card, but are not free.
const LOOKS_PER_CREATION: usize = 16;

/// Refusals for once that a connection may have.
const FAILURES: u8 = 4;

/// Connections checked in one tick.
const AUDITED_PER_TICK: usize = 32;

/// What came of one item of the line.
enum Step {
    /// The card was asked.
    Asked,
    /// It need not be.
    Passed,
    /// There is no room: the item stays first in line.
    NoRoom,
}

impl<C: Connections> Offloader<C> {
    /// Creates rules of port `at` for those first in line.
    pub(crate) fn create(&mut self, at: usize, flows: &mut dyn FlowPort, now_ms: u64) {
        let budget = self.config.creations_per_tick;
        let mut asked = 0;
        // Who goes to the end of the line waits for the next tick.
        let in_line = self.ports.get(at).map_or(0, |rules| rules.line.len());
        for _ in 0..budget.saturating_mul(LOOKS_PER_CREATION).min(in_line) {
            let Some(rules) = self.ports.get_mut(at) else { return };
            let spent = asked == budget || rules.budget.available(now_ms) == 0;
            if spent || !rules.is_ready() || !rules.capacity.may_ask(now_ms) {
                return;
            }
            let Some(owner) = rules.line.pop_front() else { return };
            match self.create_one(at, owner, flows, now_ms) {
                Step::Asked => asked += 1,
                Step::Passed => {}
                Step::NoRoom => {
                    if let Some(rules) = self.ports.get_mut(at) {
                        rules.line.push_front(owner);
                    }
                    return;
                }
            }
        }
    }

    fn create_one(
        &mut self,
        at: usize,
        owner: Owner,
        flows: &mut dyn FlowPort,
        now_ms: u64,
    ) -> Step {
        let (conn, direction) = owner;
        let Some(rules) = self.ports.get_mut(at) else { return Step::Passed };
        let here = rules.port;
        let waits = self.entries.get(&conn).is_some_and(|entry| entry.waits_on(direction, here));
        if !waits {
            return Step::Passed;
        }
        if rules.rewrites() && !self.world.is_established(conn) {
            // Software must see all of a handshake.
            if let Some(entry) = self.entries.get_mut(&conn) {
                entry.may_ask = true;
            }
            self.put_stage(owner, Stage::Software);
            return Step::Passed;
        }
        let Some(job) = self.hold(owner) else {
            self.missed(owner, at);
            return Step::Passed;
        };
        let path = self.world.path(conn, direction);
        if path.is_some_and(|path| path.arrives != here) {
            // The route has changed while it was waiting.
            let stage = self.line_up(conn, direction).unwrap_or_default();
            self.put_stage(owner, stage);
            return Step::Passed;
        }
        let (Some(path), Some(tables)) = (path, self.world.port(here)) else {
            self.missed(owner, at);
            return Step::Passed;
        };
        let ends = self.ends(&job, &path);
        let Some(rules) = self.ports.get_mut(at) else { return Step::Passed };
        match rules.create(&Job { ends, ..job }, tables, flows, now_ms) {
            Attempt::Created(installed) => {
                if installed.tag == Tag::Nothing {
                    self.routes.add(installed.goal, conn, ends.way, ends.tunnel);
                }
                if let Some(key) = self.entries.get(&conn).and_then(|entry| entry.key) {
                    self.admission.installed(key, now_ms);
                }
                self.put_stage(owner, Stage::Installed(installed));
                Step::Asked
            }
            Attempt::Refused { asked, why } => {
                if !why.is_some_and(|why| self.mark_instead(owner, here, why)) {
                    self.note_refusal(conn, CardRefusal::Unsupported);
                    self.put_stage(owner, Stage::Software);
                }
                if asked { Step::Asked } else { Step::Passed }
            }
            Attempt::Failed { asked } => {
                self.try_again(owner, here, asked);
                Step::Asked
            }
            Attempt::NoRoom => {
                self.finish_if_bare(conn);
                Step::NoRoom
            }
        }
    }

    /// Keeps the connection from being removed and reads what its rules are
    /// made from. In this order: what is read from then on stays true.
    fn hold(&mut self, owner: Owner) -> Option<Job> {
        let (conn, direction) = owner;
        let entry = self.entries.get_mut(&conn)?;
        let second_best = entry.not_rewritten(direction).is_some();
        if entry.held.is_none() {
            if !self.world.hold(conn) {
                return None;
            }
            entry.held = self.world.binding(conn);
        }
        let binding = entry.held?;
        let any_port = self.world.any_port(binding.service);
        Some(Job { owner, binding, any_port, ends: Ends::default(), second_best })
    }

    /// What a rule is made from that isn't the connection's own.
    fn ends(&self, job: &Job, path: &Path) -> Ends {
        let (conn, direction) = job.owner;
        let backend = match job.binding.forwarding.delivery(direction, job.binding.backend) {
            Some(Delivery::Tunnel(backend)) => Some(backend),
            _ => None,
        };
        Ends {
            tunnel: backend.and_then(|backend| self.world.tunnel(backend)),
            goal: Goal { hop: path.hop, tunnel: backend },
            way: self.world.way(path.hop),
            from: self.world.way(path.from),
            longest: self.world.station(path.arrives).map_or(u16::MAX, |(_, mtu)| mtu),
            timeout_ms: self.world.timeout_ms(conn).unwrap_or_default(),
        }
    }

    /// A rule was refused for once: its direction goes to the end of the line,
    /// a few times; then workers may ask again, unless it was the card that
    /// refused and it takes a mark.
    fn try_again(&mut self, owner: Owner, port: PortId, asked: bool) {
        let Some(entry) = self.entries.get_mut(&owner.0) else { return };
        entry.failures += 1;
        if entry.failures < FAILURES {
            if let Some(rules) = self.ports.get_mut(usize::from(port.0)) {
                rules.line.push_back(owner);
            }
            return self.finish_if_bare(owner.0);
        }
        if asked && self.mark_instead(owner, port, NotRewritten::Failed) {
            return;
        }
        if let Some(entry) = self.entries.get_mut(&owner.0) {
            entry.may_ask = true;
        }
        self.note_refusal(owner.0, CardRefusal::Failed);
        self.put_stage(owner, Stage::Software);
    }

    fn note_refusal(&mut self, conn: ConnId, why: CardRefusal) {
        if let Some(entry) = self.entries.get_mut(&conn) {
            entry.refusal = Some(why);
        }
    }

    /// The connection ended before its turn came.
    fn missed(&mut self, owner: Owner, at: usize) {
        if let Some(rules) = self.ports.get_mut(at) {
            rules.done.late += 1;
        }
        self.put_stage(owner, Stage::Software);
    }

    fn put_stage(&mut self, (conn, direction): Owner, stage: Stage) {
        if let Some(entry) = self.entries.get_mut(&conn) {
            *entry.stage_mut(direction) = stage;
        }
        self.finish_if_bare(conn);
    }

    /// Looks after a few connections in turn. None that has rules should ever
    /// be gone or be another's; should it happen, its rules go at once. Those
    /// in line may be gone, and leave it.
    pub(crate) fn audit(&mut self) {
        let from = self.audited.map_or(Bound::Unbounded, Bound::Excluded);
        let some: Vec<_> = self
            .entries
            .range((from, Bound::Unbounded))
            .take(AUDITED_PER_TICK)
            .map(|(&conn, entry)| (conn, entry.held, entry.withdrawn))
            .collect();
        self.audited = some.last().map(|&(conn, ..)| conn);
        for (conn, held, withdrawn) in some {
            let binding = self.world.binding(conn);
            if held.is_some() && held != binding {
                self.orphaned += u64::from(!withdrawn);
                self.withdraw_rules(conn, false);
            } else if binding.is_none() {
                for direction in Direction::BOTH {
                    self.leave_line((conn, direction));
                }
            }
        }
    }

    fn leave_line(&mut self, owner: Owner) {
        let Some(entry) = self.entries.get(&owner.0) else { return };
        if let Stage::Waiting(port) = entry.stage(owner.1) {
            let at = usize::from(port.0);
            self.missed(owner, at);
        }
    }
}
