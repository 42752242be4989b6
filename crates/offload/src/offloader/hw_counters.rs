//! Connections whose packets no worker sees: their rules' counters and ages say
//! whether they live.
use std::ops::Bound;

use conntrack::ConnId;
use dpdk::flow::FlowPort;
use flow::Direction;

use super::Offloader;
use crate::connection::{Counted, Event, Reading};
use crate::environment::Environment;
use crate::port::Owner;

/// How often the ports' entry rules are looked at.
const ENTRIES_MS: u64 = 1_000;

impl<E: Environment> Offloader<E> {
    /// Looks after the connections that rules rewrite: the counters of some, by
    /// turns, a few of those that the cards and the ager call idle, and lost rules.
    pub(super) fn watch(&mut self, flows: &mut [&mut dyn FlowPort]) {
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
        for (conn, direction) in aged {
            self.step(conn, Event::Aged(direction));
        }
        for _ in 0..self.config.counted_per_tick {
            let Some(conn) = self.suspects.pop_first() else { return };
            self.examine(conn, flows);
        }
    }

    fn count_some(&mut self, flows: &mut [&mut dyn FlowPort]) {
        let from = self.counted.map_or(Bound::Unbounded, Bound::Excluded);
        let range = self.connections.range((from, Bound::Unbounded));
        let (now_ms, every_ms) = (self.now_ms, self.config.count_ms);
        let some: Vec<_> = range
            .take(self.config.counted_per_tick)
            .map(|(&conn, connection)| (conn, connection.is_to_be_read(now_ms, every_ms)))
            .collect();
        self.counted = some.last().map(|&(conn, _)| conn);
        for (conn, _) in some.into_iter().filter(|&(_, due)| due) {
            if let Some(reading) = self.read(conn, flows) {
                self.step(conn, Event::Counted(reading));
            }
        }
    }

    fn examine(&mut self, conn: ConnId, flows: &mut [&mut dyn FlowPort]) {
        let Some(reading) = self.read(conn, flows) else { return };
        let idle_ms = self.environment.idle_ms(conn, self.now_ms);
        let timeout_ms = self.environment.timeout_ms(conn).map_or(0, u64::from);
        self.step(conn, Event::Examined { reading, idle_ms, timeout_ms });
    }

    /// Reads the counters of `conn`'s rules. The next hop of a rule whose counter has
    /// moved is in use.
    fn read(&mut self, conn: ConnId, flows: &mut [&mut dyn FlowPort]) -> Option<Reading> {
        let Self { environment, connections, ports, now_ms, .. } = self;
        let now_ms = *now_ms;
        let idle_ms = environment.idle_ms(conn, now_ms);
        let touched_ms = idle_ms.map_or(0, |idle| now_ms.saturating_sub(idle));
        let connection = connections.get_mut(&conn)?;
        let rules = Direction::BOTH.map(|direction| {
            let installed = connection.installed_mut(direction)?;
            let at = usize::from(installed.port().0);
            let rule = installed.unseen_mut()?;
            let Some(new) = ports.get_mut(at)?.read(rule, *flows.get_mut(at)?) else {
                return Some(Counted::Lost);
            };
            if new.packets > 0 {
                environment.use_hop(rule.destination().hop(), now_ms);
            }
            Some(Counted::New(new))
        });
        Some(Reading::new(now_ms, touched_ms, rules))
    }
}
