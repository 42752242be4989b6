//! Withdraws rules whose next hop has another Ethernet address, which the rules
//! carry.
use std::collections::{BTreeMap, BTreeSet};

use conntrack::ConnId;
use wire::Encap;

use super::Offloader;
use crate::connection::Event;
use crate::encode::Destination;
use crate::environment::{Environment, NextHop};

/// All next hops of rules are looked at once in this time, changed or not: a
/// new configuration changes interfaces.
const LOOK_MS: u64 = 1_000;

/// Connections whose rules are taken back in one tick because a next hop has
/// changed: a gateway is the next hop of any number of them.
const REROUTED_PER_TICK: usize = 1_024;

/// Where rules send packets, and by which addresses.
#[derive(Debug, Default)]
pub(super) struct Routes {
    by_destination: BTreeMap<Destination, Route>,
    /// Connections with rules to next hops that are not what they were.
    outdated: Vec<BTreeSet<ConnId>>,
    changes: u64,
    looked_ms: u64,
}

#[derive(Debug)]
struct Route {
    /// The address that the rules were made from; `None`: they were made from
    /// several.
    made_of: Option<(NextHop, Option<Encap>)>,
    conns: BTreeSet<ConnId>,
}

impl Routes {
    /// Notes that a rule of `conn`, made of `made_of`, sends packets to `to`.
    pub(super) fn add(
        &mut self,
        to: Destination,
        conn: ConnId,
        made_of: Option<(NextHop, Option<Encap>)>,
    ) {
        let new = Route { made_of, conns: BTreeSet::new() };
        let route = self.by_destination.entry(to).or_insert(new);
        route.conns.insert(conn);
        if route.made_of != made_of {
            // The rules are made from two addresses: the next look ends them all.
            route.made_of = None;
        }
    }

    /// Notes that `conn` has no rule to `to` any more.
    pub(super) fn remove(&mut self, to: Destination, conn: ConnId) {
        for conns in &mut self.outdated {
            conns.remove(&conn);
        }
        if let Some(route) = self.by_destination.get_mut(&to) {
            route.conns.remove(&conn);
            if route.conns.is_empty() {
                self.by_destination.remove(&to);
            }
        }
    }
}

impl Routes {
    /// One of the connections with rules to a next hop that is not what it was.
    fn next_outdated(&mut self) -> Option<ConnId> {
        loop {
            match self.outdated.last_mut()?.pop_first() {
                None => drop(self.outdated.pop()),
                conn => return conn,
            }
        }
    }
}

impl<E: Environment> Offloader<E> {
    /// Takes back the rules whose next hop or tunnel is not what it was. The
    /// connections are served in software then, by the new address, and may ask
    /// again. A next hop that has only become stale keeps its rules.
    pub(super) fn reroute(&mut self) {
        let changes = self.environment.hop_changes();
        let due = self.now_ms >= self.routes.looked_ms.saturating_add(LOOK_MS);
        if changes != self.routes.changes || due {
            (self.routes.changes, self.routes.looked_ms) = (changes, self.now_ms);
            let Self { routes: Routes { by_destination, outdated, .. }, environment, .. } = self;
            by_destination.retain(|to, route| {
                let same = route.made_of.is_some() && to.resolve(environment) == route.made_of;
                if !same {
                    outdated.push(std::mem::take(&mut route.conns));
                }
                same
            });
        }
        for _ in 0..REROUTED_PER_TICK {
            let Some(conn) = self.routes.next_outdated() else { return };
            self.step(conn, Event::NextHopChanged);
        }
    }
}
