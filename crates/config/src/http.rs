//! `[[service.route]]`: which HTTP requests, or TLS connections, go to which backends.
use std::io::Read as _;
use std::path::PathBuf;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use service::{Goal, Reply, RouteSpec};

use crate::text;

/// A rule for requests, or for TLS connections: one that matches all that is given goes to the backends of the group, or HNLB answers a request by a redirect or a page. Of several rules that match, a whole host or server name is before `*.` and that before none, then the longer path wins, then the rule with more conditions, then the first.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct HttpRoute {
    /// The host that the client asks for, without a port; `*.example.com` stands for all names below `example.com`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
    /// The beginning of the path, in whole segments: `/api` matches `/api` and `/api/users`, and not `/apis`. The path is compared as the client wrote it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// A header that the request has, such as `x-beta: yes`, or `x-beta` for any value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub header: Option<String>,
    /// A cookie that the request has, such as `beta=yes`, or `beta` for any value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cookie: Option<String>,
    /// The server name (SNI) that a TLS client asks for; `*.example.com` stands for all names below `example.com`. Only with the protocol `tls`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server_name: Option<String>,
    /// A protocol that a TLS client offers (ALPN), such as `h2`, `http/1.1` or `acme-tls/1`. Only with the protocol `tls`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub alpn: Option<String>,
    /// The group of backends that gets the request. A route has exactly one of `group`, `redirect` and `maintenance`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("format" = "name"))]
    pub group: Option<String>,
    /// HNLB redirects the client.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub redirect: Option<Redirect>,
    /// HNLB answers with a page.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub maintenance: Option<Maintenance>,
}

/// A redirect that HNLB answers with.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Redirect {
    /// The target: an `http://` or `https://` URL, or a path of the same host. `{host}` stands for the host of the request without its port, `{path}` for its path, and `{query}` for its query with the `?`; `https://{host}{path}{query}` is the same page over TLS.
    pub location: String,
    /// The status code: 301 and 308 are permanent, 302, 303 and 307 are not; with 307 and 308 the client repeats the method and the body.
    #[serde(default = "found")]
    #[schemars(range(min = 301, max = 308))]
    pub status: u16,
}

/// A page that HNLB answers with.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Maintenance {
    /// The status code of the page: 503, 429, 410, 404, 403 or 200.
    #[serde(default = "unavailable")]
    #[schemars(range(min = 200, max = 503))]
    pub status: u16,
    /// The content of the page, given here or in `file`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// The file with the page: an absolute path, and UTF-8 of 12,288 bytes at most. HNLB reads it with the configuration.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<PathBuf>,
    /// The media type of the page, sent in the field Content-Type.
    #[serde(default = "html")]
    pub content_type: String,
    /// How long clients are to wait before they try again, sent in the field Retry-After in whole seconds.
    #[serde(default, with = "text::optional_duration", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>", extend("format" = "time-span", "x-minimum" = "1s", "x-maximum" = "24h"))]
    pub retry_after: Option<Duration>,
    /// What the file has.
    #[serde(skip)]
    #[schemars(skip)]
    loaded: Option<String>,
}

const fn found() -> u16 {
    302
}

const fn unavailable() -> u16 {
    503
}

fn html() -> String {
    "text/html; charset=utf-8".to_owned()
}

impl Maintenance {
    /// Bytes of a page, at most: with its header it is sent in a first flight.
    pub(crate) const LONGEST: usize = 12_288;

    /// Reads the file.
    ///
    /// # Errors
    /// Why that can't be, and what would be right.
    pub(crate) fn load(&mut self) -> Result<(), String> {
        let Some(path) = &self.file else { return Ok(()) };
        if !path.is_absolute() {
            let shown = path.display();
            return Err(format!("'{shown}' is no absolute path; write it from the root on"));
        }
        let mut text = String::new();
        let read = std::fs::File::open(path).and_then(|file| {
            // More than one byte too many need not be read.
            file.take(Self::LONGEST as u64 + 1).read_to_string(&mut text)
        });
        read.map_err(|error| format!("'{}' can't be read: {error}", path.display()))?;
        self.loaded = Some(text);
        Ok(())
    }

    /// The page; empty if it is neither here nor in a file.
    pub(crate) fn page(&self) -> &str {
        self.text.as_deref().or(self.loaded.as_deref()).unwrap_or_default()
    }
}

impl HttpRoute {
    /// What the service table is told.
    pub(crate) fn spec(&self) -> RouteSpec {
        let split = |text: &String, at: char| match text.split_once(at) {
            Some((name, value)) => (name.trim().to_owned(), Some(value.trim().to_owned())),
            None => (text.trim().to_owned(), None),
        };
        RouteSpec {
            host: self
                .host
                .as_ref()
                .or(self.server_name.as_ref())
                .map(|own| own.to_ascii_lowercase()),
            alpn: self.alpn.clone(),
            path: self.path.clone(),
            header: self.header.as_ref().map(|text| split(text, ':')),
            cookie: self.cookie.as_ref().map(|text| split(text, '=')),
            goal: self.goal(),
        }
    }

    /// What the checks have let pass is one of the three.
    fn goal(&self) -> Goal {
        let redirect = self.redirect.as_ref();
        let redirect = redirect.and_then(|own| Reply::redirect(own.status, &own.location).ok());
        let page = self.maintenance.as_ref().map(|own| {
            let seconds = own.retry_after.map(|time| time.as_secs());
            let seconds = seconds.map(|seconds| u32::try_from(seconds).unwrap_or(u32::MAX));
            Reply::page(own.status, &own.content_type, own.page(), seconds)
        });
        redirect.or(page).map_or_else(|| Goal::Group(self.group.clone()), Goal::Reply)
    }

    /// Whether it takes every request and answers it.
    pub(crate) const fn answers_all(&self) -> bool {
        !self.has_condition() && self.group.is_none()
    }

    pub(crate) const fn has_condition(&self) -> bool {
        self.host.is_some()
            || self.path.is_some()
            || self.header.is_some()
            || self.cookie.is_some()
            || self.server_name.is_some()
            || self.alpn.is_some()
    }
}
