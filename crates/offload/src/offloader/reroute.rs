//! Rules carry their next hop's Ethernet address: they go when it changes.
use std::collections::{BTreeMap, BTreeSet};

use conntrack::ConnId;
use flow::{BackendId, HopId};
use wire::Encap;

use crate::environment::{Connections, Way};
use crate::offloader::Offloader;

/// All next hops of rules are looked at once in this time, changed or not: a
/// new configuration changes interfaces.
const LOOK_MS: u64 = 1_000;

/// Where rules send packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Goal {
    /// The next hop.
    pub(crate) hop: HopId,
    /// Whose tunnel they enter.
    pub(crate) tunnel: Option<BackendId>,
}

/// Where rules send packets, and by which addresses.
#[derive(Debug, Default)]
pub(crate) struct Routes {
    by_goal: BTreeMap<Goal, Route>,
    changes: u64,
    looked_ms: u64,
}

#[derive(Debug)]
struct Route {
    /// What the rules were made from; `None`: not all from the same.
    made_of: Option<(Way, Option<Encap>)>,
    conns: BTreeSet<ConnId>,
}

impl Routes {
    /// A rule of `conn` sends packets to `goal`.
    pub(crate) fn add(
        &mut self,
        goal: Goal,
        conn: ConnId,
        way: Option<Way>,
        tunnel: Option<Encap>,
    ) {
        let made_of = way.map(|way| (way, tunnel));
        let new = Route { made_of, conns: BTreeSet::new() };
        let route = self.by_goal.entry(goal).or_insert(new);
        route.conns.insert(conn);
        if route.made_of != made_of {
            // Made from two addresses: the next look ends them all.
            route.made_of = None;
        }
    }

    /// `conn` has no rule to `goal` any more.
    pub(crate) fn remove(&mut self, goal: Goal, conn: ConnId) {
        if let Some(route) = self.by_goal.get_mut(&goal) {
            route.conns.remove(&conn);
            if route.conns.is_empty() {
                self.by_goal.remove(&goal);
            }
        }
    }
}

impl<C: Connections> Offloader<C> {
    /// Takes back the rules whose next hop or tunnel is not what it was. The connections
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
        let changed = self.routes.by_goal.iter().filter(|(goal, route)| {
            route.made_of.is_none_or(|(way, tunnel)| {
                let now = goal.tunnel.and_then(|backend| world.tunnel(backend));
                way.mac.is_none() || world.way(goal.hop) != Some(way) || now != tunnel
            })
        });
        let conns: Vec<ConnId> =
            changed.flat_map(|(_, route)| route.conns.iter()).copied().collect();
        for conn in conns {
            self.note(conn, |done| done.rerouted += 1);
            self.withdraw_rules(conn, true);
        }
    }
}
