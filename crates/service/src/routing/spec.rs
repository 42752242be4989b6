//! What a configuration says of the routes of a service.
use flow::Rebalance;

use crate::Reply;
use crate::sticky::StickySpec;

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
    pub(super) fn group(&self) -> Option<&str> {
        match self {
            Self::Group(name) => name.as_deref(),
            Self::Reply(_) => None,
        }
    }
}
