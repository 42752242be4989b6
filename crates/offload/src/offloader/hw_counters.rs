//! Connections that no worker sees any more (`rewrite`): their rules' counters
//! and ages say whether they live.
use std::ops::Bound;

use conntrack::ConnId;
use dpdk::flow::{Counters, FlowPort};
use flow::Direction;
use service::Forwarding;

use crate::connection::{Entry, Tag};
use crate::environment::Connections;
use crate::offloader::Offloader;
use crate::port::Owner;
use crate::stats::Done;

/// Readings in which software had seen packets of a connection and one of its
/// rules had counted none, without one between them in which all had counted
/// some, until that rule is taken for lost.
const UNMATCHED: u8 = 3;
/// The connection table's clock ticks in so many milliseconds; what differs by
/// less than two ticks is the same.
const SAME_MS: u64 = 128;
/// How often the ports' entries are looked at.
const ENTRIES_MS: u64 = 1_000;

/// What a look at a connection's rules has shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Seen {
    /// Packets.
    Moved,
    /// None.
    Still,
    /// The card has lost one of them.
    Lost,
}

impl<C: Connections> Offloader<C> {
    /// Looks after the connections that rules rewrite: the counters of some, by
    /// turns, those that the cards and the ager call idle, and lost rules.
    pub(crate) fn watch(&mut self, flows: &mut [&mut dyn FlowPort]) {
        if !self.ports.iter().any(|rules| rules.rewrites()) {
            return;
        }
        let now_ms = self.now_ms;
        if now_ms >= self.entries_ms.saturating_add(ENTRIES_MS) {
            self.entries_ms = now_ms;
            for (rules, port) in self.ports.iter_mut().zip(flows.iter_mut()) {
                rules.check_entry(*port);
            }
        }
        self.count_some(flows);
        let mut aged: Vec<Owner> = Vec::new();
        for (rules, port) in self.ports.iter_mut().zip(flows.iter_mut()) {
            aged.append(&mut rules.aged(*port, now_ms));
        }
        aged.into_iter().for_each(|owner| self.note_age(owner));
        for conn in std::mem::take(&mut self.suspects) {
            self.examine(conn, flows);
        }
    }

    /// Whether a card rewrites packets of `conn`.
    pub(crate) fn is_rewritten(&self, conn: ConnId) -> bool {
        self.entries.get(&conn).is_some_and(has_rewriting)
    }

    fn count_some(&mut self, flows: &mut [&mut dyn FlowPort]) {
        let from = self.counted.map_or(Bound::Unbounded, Bound::Excluded);
        let range = self.entries.range((from, Bound::Unbounded));
        let some: Vec<_> = range
            .take(self.config.counted_per_tick)
            .map(|(&conn, entry)| (conn, entry.counted_ms, has_rewriting(entry)))
            .collect();
        self.counted = some.last().map(|&(conn, ..)| conn);
        for (conn, counted_ms, rewriting) in some {
            let due = self.now_ms >= counted_ms.saturating_add(self.config.count_ms);
            if rewriting && due && self.look(conn, flows) == Seen::Lost {
                self.note(conn, |done| done.astray += 1);
                self.withdraw_rules(conn, true);
            }
        }
    }

    /// Reads the counters of `conn`'s rules. If they have moved, its timeout
    /// starts anew, its next hops are in use, and the policy hears of it.
    fn look(&mut self, conn: ConnId, flows: &mut [&mut dyn FlowPort]) -> Seen {
        let now_ms = self.now_ms;
        let touched_ms =
            self.world.idle_ms(conn, now_ms).map_or(0, |idle| now_ms.saturating_sub(idle));
        let Some(entry) = self.entries.get_mut(&conn) else { return Seen::Still };
        entry.counted_ms = now_ms;
        let mut sum = Counters::default();
        let (mut rules_still, mut rules) = (0, 0);
        for direction in Direction::BOTH {
            let Some(installed) = entry.installed_mut(direction) else { continue };
            if installed.tag != Tag::Nothing {
                // Workers see its packets.
                continue;
            }
            let at = usize::from(installed.port.0);
            let (Some(port), Some(flows)) = (self.ports.get_mut(at), flows.get_mut(at)) else {
                continue;
            };
            let read = port.read(&mut installed.counted, &installed.handle, *flows);
            let Some(new) = read else { return Seen::Lost };
            rules += 1;
            if new.packets == 0 {
                rules_still += 1;
                continue;
            }
            installed.aged = false;
            self.world.use_hop(installed.goal.hop, now_ms);
            sum.packets += new.packets;
            sum.bytes += new.bytes;
        }
        entry.hardware.packets += sum.packets;
        entry.hardware.bytes += sum.bytes;
        let touched = touched_ms > entry.rearmed_ms.saturating_add(SAME_MS);
        // With one direction in software packets are to be expected there.
        let whole = rules == 2 || entry.held.is_some_and(|held| held.forwarding.is_one_way());
        if rules_still == 0 {
            entry.unmatched = 0;
        } else if touched && whole {
            entry.unmatched += 1;
        }
        if touched {
            entry.rearmed_ms = touched_ms;
        }
        if entry.unmatched >= UNMATCHED {
            if entry.held.is_some_and(|held| held.forwarding == Forwarding::Tunnel) {
                // Its packets may have a traffic class: the next one is a mark.
                if let Some(key) = entry.key {
                    self.unmatched.note(conn, key.generation);
                }
            }
            return Seen::Lost;
        }
        if sum.packets == 0 {
            return Seen::Still;
        }
        entry.rearmed_ms = now_ms;
        let key = entry.key;
        self.world.rearm(conn, now_ms);
        if let Some(key) = key {
            self.admission.seen(key, u32::try_from(sum.packets).unwrap_or(u32::MAX), now_ms);
        }
        Seen::Moved
    }

    /// The card has seen no packet of a rule for its timeout. If that is so for
    /// all rules of the connection, it is looked at.
    fn note_age(&mut self, owner: Owner) {
        let Some(entry) = self.entries.get_mut(&owner.0) else { return };
        let spent = entry.age_spent;
        let Some(installed) = entry.installed_mut(owner.1) else { return };
        installed.aged = !spent;
        if all_aged(entry) {
            self.suspects.insert(owner.0);
        }
    }

    /// The card or the ager takes `conn` for idle. If its counters agree, its
    /// rules go.
    fn examine(&mut self, conn: ConnId, flows: &mut [&mut dyn FlowPort]) {
        if !self.is_rewritten(conn) {
            return;
        }
        let aged = self.entries.get(&conn).is_some_and(all_aged);
        let seen = self.look(conn, flows);
        let idle_ms = self.world.idle_ms(conn, self.now_ms);
        let timeout_ms = self.world.timeout_ms(conn).map_or(0, u64::from);
        let Some(entry) = self.entries.get_mut(&conn) else { return };
        if seen == Seen::Moved {
            // A card may go on naming a rule that was idle once.
            entry.age_spent |= aged;
            return;
        }
        // The table's clock may have been set by a reading that came late.
        let late_ms = if aged { timeout_ms } else { SAME_MS };
        let idle = idle_ms.is_none_or(|idle| idle.saturating_add(late_ms) >= timeout_ms);
        if idle || seen == Seen::Lost {
            let idle = seen == Seen::Still;
            entry.idle |= idle;
            self.note(conn, |done| if idle { done.aged += 1 } else { done.astray += 1 });
            self.withdraw_rules(conn, true);
        }
    }

    /// Counts something at the port of one of `conn`'s rules.
    pub(crate) fn note(&mut self, conn: ConnId, count: impl FnOnce(&mut Done)) {
        let Some(entry) = self.entries.get(&conn) else { return };
        let port = Direction::BOTH.iter().find_map(|direction| entry.installed(*direction));
        let rules = port.and_then(|port| self.ports.get_mut(usize::from(port.port.0)));
        if let Some(rules) = rules {
            count(&mut rules.done);
        }
    }
}

fn has_rewriting(entry: &Entry) -> bool {
    let rules = Direction::BOTH.iter().filter_map(|direction| entry.installed(*direction));
    rules.into_iter().any(|installed| installed.tag == Tag::Nothing)
}

fn all_aged(entry: &Entry) -> bool {
    let mut rules = Direction::BOTH.iter().filter_map(|direction| entry.installed(*direction));
    has_rewriting(entry) && rules.all(|installed| installed.aged)
}
