//! `[[service.route]]`: which HTTP requests go to which backends.
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use service::RouteSpec;

/// A rule for requests: one that matches all that is given goes to the backends of the group. Of several rules that match, a whole host is before `*.` and that before no host, then the longer path wins, then the rule with more conditions, then the first.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct HttpRoute {
    /// The host that the client asks for, without a port; `*.example.com` stands for all names below `example.com`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
    /// The beginning of the path, in whole segments: `/api` matches `/api` and `/api/users`, and not `/apis`. The path is compared as the client wrote it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// A header that the request has, as `x-beta: yes`, or `x-beta` for any value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub header: Option<String>,
    /// A cookie that the request has, as `beta=yes`, or `beta` for any value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cookie: Option<String>,
    /// The group of backends that gets the request.
    #[schemars(extend("format" = "name"))]
    pub group: String,
}

impl HttpRoute {
    /// What the service table is told.
    pub(crate) fn spec(&self) -> RouteSpec {
        let split = |text: &String, at: char| match text.split_once(at) {
            Some((name, value)) => (name.trim().to_owned(), Some(value.trim().to_owned())),
            None => (text.trim().to_owned(), None),
        };
        RouteSpec {
            host: self.host.as_ref().map(|host| host.to_ascii_lowercase()),
            path: self.path.clone(),
            header: self.header.as_ref().map(|text| split(text, ':')),
            cookie: self.cookie.as_ref().map(|text| split(text, '=')),
            group: Some(self.group.clone()),
        }
    }
}
