//! Rules carry their next hop's Ethernet address: they go when it changes.
use std::collections::{BTreeMap, BTreeSet};

use conntrack::ConnId;
use service::HopId;

use crate::connections::{Connections, Way};
use crate::offloader::Offloader;

/// All next hops of rules are looked at once in this time, changed or not: a
/// new configuration changes interfaces.
const LOOK_MS: u64 = 1_000;

/// The next hops that rules send packets to.
#[derive(Debug, Default)]
pub(crate) struct Routes {
    by_hop: BTreeMap<HopId, Route>,
    changes: u64,
    looked_ms: u64,
}

#[derive(Debug)]
struct Route {
    /// What the rules were made from.
    way: Option<Way>,
    conns: BTreeSet<ConnId>,
}

impl Routes {
    /// A rule of `conn` sends packets to `hop`.
    pub(crate) fn add(&mut self, hop: HopId, conn: ConnId, way: Option<Way>) {
        let route = self.by_hop.entry(hop).or_insert(Route { way, conns: BTreeSet::new() });
        route.conns.insert(conn);
        if route.way != way {
            // Made from two addresses: the next look ends them all.
            route.way = None;
        }
    }

    /// `conn` has no rule to `hop` any more.
    pub(crate) fn remove(&mut self, hop: HopId, conn: ConnId) {
        if let Some(route) = self.by_hop.get_mut(&hop) {
            route.conns.remove(&conn);
            if route.conns.is_empty() {
                self.by_hop.remove(&hop);
            }
        }
    }
}

impl<C: Connections> Offloader<C> {
    /// Takes back the rules whose next hop is not what it was. The connections
    /// are served in software then, by the new address, and may ask again. A
    /// next hop that has only become stale keeps its rules.
    pub(crate) fn reroute(&mut self) {
        let changes = self.world.way_changes();
        let due = self.now_ms >= self.routes.looked_ms.saturating_add(LOOK_MS);
        if changes == self.routes.changes && !due {
            return;
        }
        (self.routes.changes, self.routes.looked_ms) = (changes, self.now_ms);
        let world = &self.world;
        let changed = self.routes.by_hop.iter().filter(|(hop, route)| {
            route.way.is_none_or(|way| way.mac.is_none() || world.way(**hop) != Some(way))
        });
        let conns: Vec<ConnId> =
            changed.flat_map(|(_, route)| route.conns.iter()).copied().collect();
        for conn in conns {
            self.note(conn, |done| done.rerouted += 1);
            self.withdraw_rules(conn, true);
        }
    }
}
