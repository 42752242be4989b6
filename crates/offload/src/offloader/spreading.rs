//! Connections with rules, spread over the workers by load.
use std::ops::Bound;

use conntrack::ConnId;

use super::Offloader;
use crate::connection::Event;
use crate::environment::Environment;

/// Connections among which one that leaves a busy worker is looked for.
const LOOKS: usize = 1024;

impl<E: Environment> Offloader<E> {
    /// Which worker gets the packets of the rules of `conn`: the same one for both
    /// directions, as long as it has rules.
    pub(super) fn worker_of(&mut self, conn: ConnId) -> Option<u16> {
        let connection = self.connections.get_mut(&conn)?;
        if connection.worker().is_none() {
            let standing = connection.key().map(|key| self.admission.standing(key, self.now_ms));
            let rate = standing.and_then(|standing| standing.rate());
            connection.set_worker(self.spread.choose(conn, rate, self.environment.worker_loads()));
        }
        connection.worker()
    }

    /// Reads the workers' loads. If one has much more than another, the rules of one of its
    /// connections go, and the next ones name another worker.
    pub(super) fn spread(&mut self) {
        self.spread.read(self.environment.worker_loads());
        let Some(burdened) = self.spread.burdened(self.now_ms) else { return };
        let some = self.looked_through();
        let rates = some.iter().filter_map(|conn| {
            let connection = self.connections.get(conn)?;
            // Rules that were made before anybody measured name the worker by number.
            let worker = connection.worker().or_else(|| self.spread.usual(*conn));
            let is_there = worker == Some(burdened.worker) && connection.is_seen();
            let standing = self.admission.standing(connection.key()?, self.now_ms);
            Some((*conn, standing.rate()?)).filter(|_| is_there)
        });
        let Some(conn) = burdened.pick(rates) else { return };
        if let Some(connection) = self.connections.get_mut(&conn) {
            connection.set_worker(None);
        }
        self.relieved += 1;
        self.step(conn, Event::Withdrawn);
    }

    /// The next few connections, by turns.
    fn looked_through(&mut self) -> Vec<ConnId> {
        let from = self.spread_from.map_or(Bound::Unbounded, Bound::Excluded);
        let range = self.connections.range((from, Bound::Unbounded));
        let some: Vec<ConnId> = range.take(LOOKS).map(|(&conn, _)| conn).collect();
        self.spread_from = some.last().copied().filter(|_| some.len() == LOOKS);
        some
    }
}
