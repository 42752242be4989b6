//! All rules of the process, under one owner: those of connections and those of
//! stateless services.
use std::sync::Arc;

use conntrack::ConnId;
use dpdk::flow::FlowPort;
use state::{Offload, Shared};

use crate::stateless::StatelessStats;
use crate::{Explained, OffloadCause, OffloadStats, Offloader, StatelessRules};

/// The one owner of all rules. It knows no thread and no clock: the thread that has
/// the drivers calls [`turn`](Self::turn). A driver may take long for each call, so
/// no other work should wait for a turn.
#[derive(Debug)]
pub struct Rules {
    connections: Offloader,
    stateless: StatelessRules,
}

/// The state of all rules at one moment.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RulesReport {
    /// Of the rules of connections.
    pub connections: OffloadStats,
    /// Of the rules of stateless services.
    pub stateless: StatelessStats,
}

impl Rules {
    /// `connections`, beside an owner of `shared`'s stateless services.
    #[must_use]
    pub fn new(connections: Offloader, shared: Arc<Shared>) -> Self {
        Self { connections, stateless: StatelessRules::new(shared) }
    }

    /// One turn, about once a millisecond: takes `requests` of workers and
    /// keeper, and does what is due. `flows` by [`PortId`](flow::PortId); a port
    /// that is missing there is left alone.
    pub fn turn(
        &mut self,
        now_ms: u64,
        requests: impl IntoIterator<Item = (ConnId, Offload)>,
        flows: &mut [&mut dyn FlowPort],
    ) {
        self.connections.begin(now_ms);
        for (conn, reason) in requests {
            self.connections.request(conn, reason);
        }
        self.stateless.tick(now_ms, flows);
        self.connections.tick(now_ms, flows);
    }

    /// Whether there are rules, or connections that are to get some.
    #[must_use]
    pub fn has_work(&self) -> bool {
        self.connections.has_work() || self.stateless.rules() > 0
    }

    /// Destroys every rule. Returns how many the cards would not destroy.
    pub fn shutdown(&mut self, flows: &mut [&mut dyn FlowPort]) -> usize {
        self.stateless.shutdown(flows) + self.connections.shutdown(flows)
    }

    /// Why `conn` is, or is not, in hardware; `None` if there is no such
    /// connection.
    #[must_use]
    pub fn explain(&self, conn: ConnId) -> Option<Explained> {
        self.connections.explain(conn)
    }

    /// Where `conn` is served, or why not in the NIC, in a word; `None` if there is no
    /// such connection.
    #[must_use]
    pub fn cause(&self, conn: ConnId) -> Option<OffloadCause> {
        self.connections.cause(conn)
    }

    /// The packets per second of every connection whose rate is measured, in no order;
    /// `None`: rates are not measured, since nothing is offloaded by them.
    #[must_use]
    pub fn rates(&self) -> Option<Vec<(ConnId, f64)>> {
        self.connections.rates()
    }

    /// The packets per second of `conn`, if they are measured.
    #[must_use]
    pub fn rate(&self, conn: ConnId) -> Option<f64> {
        self.connections.rate(conn)
    }

    /// The present state, and the counts since the start.
    #[must_use]
    pub fn report(&self) -> RulesReport {
        RulesReport { connections: self.connections.stats(), stateless: self.stateless.stats() }
    }
}
