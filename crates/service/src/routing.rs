//! Which backends serve which HTTP requests, or which TLS connections.
mod routed;
mod rule;
mod spec;

use std::sync::Arc;

use flow::{Rebalance, Scheduler};

use crate::maglev::{Maglev, Member};
use crate::scheduler::Members;
use crate::sticky::Sticky;
use crate::{Backend, Reply, ServiceSpec};

pub(crate) use self::rule::bare;
pub use self::spec::{Goal, HeaderChanges, Reads, RouteSpec, RoutesSpec};

/// Where a request is routed to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Routed<'a> {
    /// To a backend of the group.
    Group(GroupId),
    /// To no backend: this is the answer.
    Reply(&'a Reply),
}

/// What routes read of a request.
pub trait RequestView {
    /// The host that is asked for, perhaps with a port.
    fn host(&self) -> &str;
    /// The path, without the query.
    fn path(&self) -> &str;
    /// The query with its question mark; empty if there is none.
    fn query(&self) -> &str;
    /// Whether a field `name` has `value`, or is there.
    fn has_header(&self, name: &str, value: Option<&str>) -> bool;
    /// Whether the cookie `name` has `value`, or is there.
    fn has_cookie(&self, name: &str, value: Option<&str>) -> bool;
}

/// What routes read of a TLS connection.
pub trait HelloView {
    /// The server name in lower case; empty if the client names none.
    fn name(&self) -> &str;
    /// Whether the client offers the protocol.
    fn offers(&self, protocol: &str) -> bool;
}

/// Where a TLS connection is routed to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Directed {
    /// To a backend of the group.
    Group(GroupId),
    /// To none: a route has the server name, and none of its protocols is offered.
    NoProtocol,
    /// To none: no route has the server name, and all backends are in groups.
    NoRoute,
}

/// Backends of one service that serve the same requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GroupId(u16);

impl GroupId {
    /// The backends without a group.
    pub const NONE: Self = Self(0);
}

/// The rules of one service, compiled.
#[derive(Clone, Debug)]
pub(crate) struct Routing {
    /// The first that matches decides.
    rules: Box<[(RouteSpec, GroupId)]>,
    /// The place of each in the configuration.
    numbers: Box<[u16]>,
    /// That of the backends without a group first.
    groups: Box<[Group]>,
    rebalance: Rebalance,
    reads: Reads,
    proxy_header: bool,
    /// The group of each backend, by place.
    members: Box<[GroupId]>,
    requests: Arc<HeaderChanges>,
    responses: Arc<HeaderChanges>,
    sticky: Option<Sticky>,
}

/// The backends of a group that have a weight.
#[derive(Clone, Debug, Default)]
pub(crate) struct Group {
    eligible: Box<[u16]>,
    /// Of a service whose scheduler hashes.
    maglev: Option<Maglev>,
}

impl Group {
    pub(crate) const fn maglev(&self) -> Option<&Maglev> {
        self.maglev.as_ref()
    }

    pub(crate) fn first(&self) -> Option<u16> {
        self.eligible.first().copied()
    }

    pub(crate) fn places(&self) -> impl Iterator<Item = u16> {
        self.eligible.iter().copied()
    }

    pub(crate) fn members<'a>(
        &'a self,
        backends: &'a [Backend],
        maglev: &'a Maglev,
    ) -> Members<'a> {
        Members { backends, eligible: &self.eligible, maglev }
    }
}

impl Routing {
    /// The rules of `spec`, whose compiled backends are `backends`. A rule for a group
    /// without backends is for none that serves.
    pub(crate) fn new(routes_spec: &RoutesSpec, spec: &ServiceSpec, backends: &[Backend]) -> Self {
        let RoutesSpec { rules: routes, rebalance, reads, proxy_header, requests, .. } =
            routes_spec;
        let RoutesSpec { responses, sticky, .. } = routes_spec;
        let mut names: Vec<Option<&str>> = vec![None];
        let own = spec.backends.iter().map(|own| own.group.as_deref());
        let asked = routes.iter().map(|route| route.goal.group());
        for name in own.clone().chain(asked) {
            if !names.contains(&name) {
                names.push(name);
            }
        }
        let id = |name: Option<&str>| {
            let place = names.iter().position(|known| *known == name).unwrap_or(0);
            // There are at most as many as backends and routes.
            GroupId(place as u16)
        };
        let mut ranked: Vec<(u16, &RouteSpec)> = (0..).zip(routes).collect();
        // Stable, so that the first in the file wins among equals.
        ranked.sort_by_key(|(_, route)| std::cmp::Reverse(route.rank()));
        let rules = ranked.iter().map(|(_, route)| ((*route).clone(), id(route.goal.group())));
        let mut routing = Self {
            rules: rules.collect(),
            numbers: ranked.iter().map(|(number, _)| *number).collect(),
            rebalance: *rebalance,
            reads: *reads,
            proxy_header: *proxy_header,
            groups: names.iter().map(|_| Group::default()).collect(),
            members: own.map(id).collect(),
            requests: Arc::new(requests.clone()),
            responses: Arc::new(responses.clone()),
            sticky: sticky.as_ref().map(|sticky| Sticky::new(sticky, spec, backends)),
        };
        routing.weigh(backends, spec.scheduler, spec.maglev_size);
        routing
    }

    /// Brings the groups up to the weights of `backends`.
    pub(crate) fn weigh(&mut self, backends: &[Backend], scheduler: Scheduler, size: u32) {
        for (at, group) in (0..).map(GroupId).zip(&mut self.groups) {
            let own = || (0..).zip(backends).zip(&self.members).filter(|(_, id)| **id == at);
            let eligible = own().filter(|((_, one), _)| one.weight > 0);
            group.eligible = eligible.map(|((place, _), _)| place).collect();
            let hashes = matches!(scheduler, Scheduler::Maglev | Scheduler::SourceHash);
            group.maglev = hashes.then(|| {
                let members = backends.iter().zip(&self.members).map(|(one, id)| Member {
                    address: one.address,
                    port: one.port.unwrap_or(0),
                    weight: if *id == at { one.weight } else { 0 },
                });
                Maglev::fill(size, &members.collect::<Vec<_>>())
            });
        }
    }

    /// Whether no backend of the configuration is in the group.
    pub(crate) fn is_empty(&self, group: GroupId) -> bool {
        !self.members.contains(&group)
    }

    pub(crate) fn group(&self, GroupId(place): GroupId) -> Option<&Group> {
        self.groups.get(usize::from(place))
    }

    /// Where a request is routed to; to the backends without a group if no rule matches.
    pub(crate) fn route(&self, request: &impl RequestView) -> Routed<'_> {
        match self.rules.iter().find(|(rule, _)| rule.matches(request)) {
            Some((RouteSpec { goal: Goal::Reply(reply), .. }, _)) => Routed::Reply(reply),
            Some((_, group)) => Routed::Group(*group),
            None => Routed::Group(GroupId::NONE),
        }
    }

    /// Where a TLS connection is routed to.
    pub(crate) fn direct(&self, hello: &impl HelloView) -> Directed {
        let named = || self.rules.iter().filter(|(rule, _)| rule.has_name(hello.name()));
        let offers = |rule: &RouteSpec| rule.alpn.as_deref().is_none_or(|own| hello.offers(own));
        let group = named().find(|(rule, _)| offers(rule)).map_or(GroupId::NONE, |(_, own)| *own);
        match self.is_empty(group) {
            false => Directed::Group(group),
            true if named().any(|(rule, _)| !offers(rule)) => Directed::NoProtocol,
            true => Directed::NoRoute,
        }
    }

    pub(crate) const fn reads(&self) -> Reads {
        self.reads
    }

    /// Whether all requests of a connection go to the same backend.
    pub(crate) fn is_uniform(&self) -> bool {
        let other = |(rule, group): &(RouteSpec, GroupId)| {
            *group != GroupId::NONE || matches!(rule.goal, Goal::Reply(_))
        };
        self.rebalance == Rebalance::Never && self.sticky.is_none() && !self.rules.iter().any(other)
    }
}
