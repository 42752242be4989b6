//! `request_headers`, `response_headers` and `sticky` of a service of requests.
use std::fmt::Write as _;
use std::time::Duration;

use flow::SameSite;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use service::{HeaderChanges, Key128, StickySpec};

use crate::health::field;
use crate::text;

/// What becomes of the fields of headers on their way.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Headers {
    /// Fields that replace all fields with the same name, such as `X-Frame-Options: DENY`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub set: Vec<String>,
    /// Fields that are added to those with the same name, such as `Vary: Origin`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub add: Vec<String>,
    /// Names of fields that are removed, such as `Server`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub remove: Vec<String>,
}

impl Headers {
    /// Bytes of all fields of one header that are set and added, at most.
    pub(crate) const LONGEST: usize = 2_048;

    pub(crate) fn is_empty(&self) -> bool {
        self.set.is_empty() && self.add.is_empty() && self.remove.is_empty()
    }

    /// What the service table is told. What the checks have let pass is a field.
    pub(crate) fn changes(&self) -> HeaderChanges {
        let named = |texts: &[String]| {
            let fields = texts.iter().filter_map(|text| field(text));
            fields.map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
        };
        HeaderChanges { set: named(&self.set), add: named(&self.add), remove: self.remove.clone() }
    }
}

/// A cookie by which a client's requests reach the same backend again, also in other connections.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Sticky {
    /// The cookie's name.
    #[serde(default = "name")]
    pub cookie: String,
    /// The key from which the cookie's values are made: 32 hexadecimal digits, as `openssl rand -hex 16` prints them. Load balancers with the same key and backends make the same cookies; after a change of the key, clients get another backend.
    #[serde(with = "text::plain")]
    #[schemars(extend("format" = "key"), with = "String")]
    pub key: Key128,
    /// The path below which browsers send the cookie.
    #[serde(default = "root")]
    pub path: String,
    /// The domain whose hosts browsers send the cookie to; by default only the host that set it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub domain: Option<String>,
    /// Whether the cookie is kept from scripts.
    #[serde(default = "yes")]
    pub http_only: bool,
    /// Whether browsers send the cookie over TLS only.
    #[serde(default)]
    pub secure: bool,
    /// With which cross-site requests browsers send the cookie.
    #[serde(default)]
    pub same_site: SameSite,
    /// How long browsers keep the cookie; by default until they are closed.
    #[serde(default, with = "text::optional_duration", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>", extend("format" = "time-span", "x-minimum" = "1s", "x-maximum" = "8760h"))]
    pub max_age: Option<Duration>,
}

fn name() -> String {
    "HNLB".to_owned()
}

fn root() -> String {
    "/".to_owned()
}

const fn yes() -> bool {
    true
}

impl Sticky {
    /// What the service table is told.
    pub(crate) fn spec(&self) -> StickySpec {
        let mut attributes = format!("; Path={}", self.path);
        if let Some(domain) = &self.domain {
            attributes += "; Domain=";
            attributes += domain;
        }
        if let Some(age) = self.max_age {
            // Writing into a string cannot fail.
            let _ = write!(attributes, "; Max-Age={}", age.as_secs());
        }
        for (is, attribute) in [(self.http_only, "; HttpOnly"), (self.secure, "; Secure")] {
            if is {
                attributes += attribute;
            }
        }
        attributes += match self.same_site {
            SameSite::Lax => "; SameSite=Lax",
            SameSite::Strict => "; SameSite=Strict",
            SameSite::None => "; SameSite=None",
        };
        StickySpec { cookie: self.cookie.clone(), key: self.key, attributes }
    }
}
