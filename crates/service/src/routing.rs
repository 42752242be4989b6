//! Which backends serve which HTTP requests, or which TLS connections.
use std::sync::Arc;

use flow::{Rebalance, Scheduler};

use crate::maglev::{Maglev, Member};
use crate::scheduler::Members;
use crate::sticky::{Sticky, StickySpec};
use crate::{Backend, Reply, Service, ServiceSpec};

/// A rule of a service that balances HTTP requests or TLS connections. A request matches
/// if all that is given matches; so does a connection, by its ClientHello.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RouteSpec {
    /// The host without its port, or the server name of TLS, in lower case; `*.` in front
    /// stands for any names before.
    pub host: Option<String>,
    /// The beginning of the path, in whole segments.
    pub path: Option<String>,
    /// The name of a field and its value; `None`: any value.
    pub header: Option<(String, Option<String>)>,
    /// The name of a cookie and its value; `None`: any value.
    pub cookie: Option<(String, Option<String>)>,
    /// A protocol that a TLS client offers (ALPN, RFC 7301).
    pub alpn: Option<String>,
    /// What becomes of the request.
    pub goal: Goal,
}

/// The rules of a service, and how often they are applied.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RoutesSpec {
    /// The rules, in the order of the configuration.
    pub rules: Vec<RouteSpec>,
    /// When the requests of a connection get another backend of the same group.
    pub rebalance: Rebalance,
    /// What its connections are routed by.
    pub reads: Reads,
    /// Whether each connection to a backend begins with a header of the PROXY protocol.
    pub proxy_header: bool,
    /// What becomes of the fields of requests.
    pub requests: HeaderChanges,
    /// What becomes of the fields of responses.
    pub responses: HeaderChanges,
    /// How clients are kept at their backends, if they are.
    pub sticky: Option<StickySpec>,
}

/// What is read of the connections of a service.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Reads {
    /// Requests of HTTP.
    #[default]
    Requests,
    /// Requests of HTTP in TLS, which ends here as TCP does.
    SealedRequests,
    /// The ClientHello of TLS, which ends here as TCP does; what is in its records is not
    /// read.
    SealedBytes,
    /// The ClientHello of TLS, which is not decrypted.
    Hellos,
    /// Nothing: there are no rules.
    Nothing,
}

impl Reads {
    /// Whether TLS ends here.
    pub(crate) const fn is_sealed(self) -> bool {
        matches!(self, Self::SealedRequests | Self::SealedBytes)
    }
}

/// What becomes of the fields of a header. All are names and values as a header has them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HeaderChanges {
    /// Fields that take the place of all with the same name.
    pub set: Vec<(String, String)>,
    /// Fields that come beside those with the same name.
    pub add: Vec<(String, String)>,
    /// Names of fields that are left out.
    pub remove: Vec<String>,
}

impl HeaderChanges {
    /// Whether nothing is changed.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.set.is_empty() && self.add.is_empty() && self.remove.is_empty()
    }
}

/// What becomes of the requests of a route.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Goal {
    /// The backends of the group get them; `None`: those without a group.
    Group(Option<String>),
    /// The load balancer answers them itself.
    Reply(Reply),
}

impl Default for Goal {
    fn default() -> Self {
        Self::Group(None)
    }
}

impl Goal {
    fn group(&self) -> Option<&str> {
        match self {
            Self::Group(name) => name.as_deref(),
            Self::Reply(_) => None,
        }
    }
}

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

impl Service {
    /// Where a request to a service that balances requests goes: where the most specific
    /// route says that matches, or to the backends without a group.
    #[must_use]
    pub fn route(&self, request: &impl RequestView) -> Option<Routed<'_>> {
        self.routing().map(|routing| routing.route(request))
    }

    /// The place in the configuration of the route that a request takes, if one matches.
    #[must_use]
    pub fn route_number(&self, request: &impl RequestView) -> Option<u16> {
        let Routing { rules, numbers, .. } = self.routing()?;
        let place = rules.iter().position(|(rule, _)| rule.matches(request))?;
        numbers.get(place).copied()
    }

    /// The name of the group that the route with this place leads to, if it does to one.
    #[must_use]
    pub fn group_of_route(&self, number: u16) -> Option<&str> {
        let Routing { rules, numbers, .. } = self.routing()?;
        let place = numbers.iter().position(|own| *own == number)?;
        rules.get(place)?.0.goal.group()
    }

    /// Where a connection to a service that balances TLS connections goes, as
    /// [`Self::route`].
    #[must_use]
    pub fn direct(&self, hello: &impl HelloView) -> Option<Directed> {
        self.routing().map(|routing| routing.direct(hello))
    }

    /// Whether the configuration has backends for the requests of `group`, in whatever
    /// state.
    #[must_use]
    pub fn has_group(&self, group: GroupId) -> bool {
        self.routing().is_some_and(|routing| !routing.is_empty(group))
    }

    /// The backend for which `is` holds, if a connection stays there with a request for
    /// `group`: that backend is one of the group's that take requests, and requests are not
    /// scheduled one by one.
    #[must_use]
    pub fn stays(&self, group: GroupId, is: impl Fn(&Backend) -> bool) -> Option<&Backend> {
        let routing = self.routing()?;
        let places = routing.group(group).into_iter().flat_map(Group::places);
        let mut backends = places.filter_map(|place| self.at(place));
        backends.find(|own| routing.rebalance == Rebalance::Never && is(own))
    }

    /// The name of the cookie that leads clients to their backends again, if there is one.
    #[must_use]
    pub fn sticky_cookie(&self) -> Option<&str> {
        self.routing()?.sticky.as_ref().map(Sticky::name)
    }

    /// The backend that the value `value` of the cookie names, if it takes requests for
    /// `group`.
    #[must_use]
    pub fn backend_of_cookie(&self, group: GroupId, value: &[u8]) -> Option<&Backend> {
        let routing = self.routing()?;
        let sticky = routing.sticky.as_ref()?;
        let mut places = routing.group(group)?.places();
        places.find(|place| sticky.is_of((*place).into(), value)).and_then(|place| self.at(place))
    }

    /// The cookie with its attributes that leads to the first backend for which `is` holds.
    #[must_use]
    pub fn cookie_of(&self, is: impl Fn(&Backend) -> bool) -> Option<&str> {
        let place = self.backends().iter().position(is)?;
        self.routing()?.sticky.as_ref()?.cookie(place)
    }

    /// Whether each connection to a backend begins with a header of the PROXY protocol.
    #[must_use]
    pub fn has_proxy_header(&self) -> bool {
        self.routing().is_some_and(|routing| routing.proxy_header)
    }

    /// What becomes of the fields of requests.
    #[must_use]
    pub fn request_changes(&self) -> Option<&HeaderChanges> {
        self.routing().map(|routing| &*routing.requests)
    }

    /// What becomes of the fields of responses.
    #[must_use]
    pub fn response_changes(&self) -> Option<&HeaderChanges> {
        self.routing().map(|routing| &*routing.responses)
    }

    /// Whether headers of responses are written anew.
    #[must_use]
    pub fn rewrites_responses(&self) -> bool {
        let changes = |routing: &Routing| !routing.responses.is_empty() || routing.sticky.is_some();
        self.routing().is_some_and(changes)
    }

    /// Whether all requests of a connection go to the same backend: then only the first
    /// is routed.
    #[must_use]
    pub fn is_uniform(&self) -> bool {
        self.routing().is_none_or(Routing::is_uniform)
    }
}

impl RouteSpec {
    /// Of two routes that match, the one with the greater rank decides: a host before any
    /// host and a whole host before names below it, then the longer path, then the route
    /// that asks for more.
    fn rank(&self) -> (u8, usize, usize, u8) {
        let (kind, length) = match &self.host {
            None => (0, 0),
            Some(host) if host.starts_with("*.") => (1, host.len()),
            Some(host) => (2, host.len()),
        };
        let conditions = [self.header.is_some(), self.cookie.is_some(), self.alpn.is_some()];
        let more = conditions.into_iter().map(u8::from).sum();
        (kind, length, self.path.as_ref().map_or(0, String::len), more)
    }

    fn has_name(&self, name: &str) -> bool {
        self.host.as_deref().is_none_or(|host| matches_host(host, name))
    }

    fn matches(&self, request: &impl RequestView) -> bool {
        self.has_name(bare(request.host()))
            && self.path.as_deref().is_none_or(|path| begins_with(request.path(), path))
            && self
                .header
                .as_ref()
                .is_none_or(|(name, value)| request.has_header(name, value.as_deref()))
            && self
                .cookie
                .as_ref()
                .is_none_or(|(name, value)| request.has_cookie(name, value.as_deref()))
    }
}

/// The host without its port and without the dot at the end of a whole domain name.
pub(crate) fn bare(host: &str) -> &str {
    let is_port = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    let name = match host.rsplit_once(':') {
        Some((name, port)) if is_port(port) => name,
        _ => host,
    };
    name.strip_suffix('.').unwrap_or(name)
}

fn matches_host(pattern: &str, host: &str) -> bool {
    let Some(suffix) = pattern.strip_prefix('*') else {
        return host.eq_ignore_ascii_case(pattern);
    };
    let Some(at) = host.len().checked_sub(suffix.len()).filter(|at| *at > 0) else { return false };
    host.get(at..).is_some_and(|end| end.eq_ignore_ascii_case(suffix))
}

/// Whether `path` is `prefix` or below it.
fn begins_with(path: &str, prefix: &str) -> bool {
    let Some(rest) = path.strip_prefix(prefix) else { return false };
    rest.is_empty() || prefix.ends_with('/') || rest.starts_with('/')
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Asked(&'static str, &'static str);

    impl RequestView for Asked {
        fn host(&self) -> &str {
            self.0
        }
        fn path(&self) -> &str {
            self.1
        }
        fn query(&self) -> &str {
            "?q"
        }
        fn has_header(&self, name: &str, value: Option<&str>) -> bool {
            name == "beta" && value.is_none_or(|value| value == "1")
        }
        fn has_cookie(&self, _: &str, _: Option<&str>) -> bool {
            false
        }
    }

    fn route(host: &str, path: &str) -> RouteSpec {
        let given = |text: &str| (!text.is_empty()).then(|| text.to_owned());
        RouteSpec { host: given(host), path: given(path), ..RouteSpec::default() }
    }

    #[test]
    fn hosts_and_paths_match_in_whole_names_and_segments() {
        for (host, path, asked, matches) in [
            ("a.b", "", Asked("A.b:80", "/"), true),
            ("a.b", "", Asked("a.b.", "/"), true),
            ("a.b", "", Asked("xa.b", "/"), false),
            ("*.b", "", Asked("x.a.b", "/"), true),
            ("*.b", "", Asked("b", "/"), false),
            ("*.b", "", Asked(".b", "/"), false),
            ("[::1]", "", Asked("[::1]:8", "/"), true),
            ("", "/a", Asked("", "/a"), true),
            ("", "/a", Asked("", "/a/b"), true),
            ("", "/a", Asked("", "/ab"), false),
            ("", "/a/", Asked("", "/a"), false),
            ("", "/", Asked("", "/x"), true),
        ] {
            let found = route(host, path).matches(&asked);
            assert_eq!(found, matches, "{host}{path} and {}{}", asked.0, asked.1);
        }
        let beta = |value: Option<&str>| RouteSpec {
            header: Some(("beta".to_owned(), value.map(str::to_owned))),
            ..RouteSpec::default()
        };
        let asked = Asked("", "/");
        assert!(beta(None).matches(&asked) && beta(Some("1")).matches(&asked));
        assert!(!beta(Some("2")).matches(&asked));
    }

    #[test]
    fn a_whole_host_is_before_a_wildcard_and_a_longer_path_before_a_shorter() {
        let mut all = [
            route("", "/long/path"),
            route("*.b", "/long"),
            route("a.b", ""),
            route("a.b", "/x"),
            route("*.a.b", ""),
        ];
        all.sort_by_key(|route| std::cmp::Reverse(route.rank()));
        let order: Vec<_> = all
            .iter()
            .map(|own| (own.host.as_deref().unwrap_or(""), own.path.as_deref().unwrap_or("")))
            .collect();
        let wanted =
            [("a.b", "/x"), ("a.b", ""), ("*.a.b", ""), ("*.b", "/long"), ("", "/long/path")];
        assert_eq!(order, wanted);
    }

    #[test]
    fn a_redirect_names_what_was_asked_for() {
        let written = |location: &str, asked: &Asked| {
            Reply::redirect(308, location).map(|own| own.pieces(asked).collect::<String>())
        };
        let asked = Asked("a.b:80", "/x");
        let text = written("https://{host}{path}{query}", &asked).unwrap();
        let line = "HTTP/1.1 308 Permanent Redirect\r\nLocation: https://a.b/x?q\r\n";
        assert!(text.starts_with(line) && text.ends_with("\r\n\r\n"), "{text}");
        let star = written("/old{path}", &Asked("", "*")).unwrap();
        assert!(star.contains("Location: /old/\r\n"), "{star}");
        for wrong in ["/{", "/}", "/{hosts}", "/{ host }", "/{{host}}"] {
            assert_eq!(written(wrong, &asked), Err(crate::BadPlace), "{wrong}");
        }
    }
}
