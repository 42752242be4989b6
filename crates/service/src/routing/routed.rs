//! Where the requests and connections of a service go.
use flow::Rebalance;

use super::{Directed, Group, GroupId, HeaderChanges, HelloView, RequestView, Routed, Routing};
use crate::sticky::Sticky;
use crate::{Backend, Service};

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
