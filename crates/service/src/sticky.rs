//! Cookies that lead a client to its backend again.
use std::hash::Hasher;
use std::net::IpAddr;

use siphasher::sip::SipHasher24;

use crate::{Backend, Key128, ServiceSpec};

/// Digits of a token.
const DIGITS: usize = 16;

/// How a service of requests keeps clients at their backends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StickySpec {
    /// The cookie's name.
    pub cookie: String,
    /// What its values are made with: without it nobody can tell which backend one names.
    pub key: Key128,
    /// The attributes of the cookie, as a Set-Cookie field has them behind the value, with a
    /// semicolon in front of each.
    pub attributes: String,
}

/// A service's cookies, one for each backend.
#[derive(Clone, Debug)]
pub(crate) struct Sticky {
    name: String,
    /// By place: the cookie with its value and attributes.
    cookies: Box<[String]>,
}

impl Sticky {
    /// The cookies of the backends of `spec`. A value depends on the key, the cookie's name,
    /// and the backend's address and port, so that every load balancer with the same
    /// configuration makes the same.
    pub(crate) fn new(sticky: &StickySpec, spec: &ServiceSpec, backends: &[Backend]) -> Self {
        let StickySpec { cookie, key: Key128(key), attributes } = sticky;
        let value = |backend: &Backend| {
            let mut hasher = SipHasher24::new_with_key(key);
            hasher.write(cookie.as_bytes());
            match backend.address {
                IpAddr::V4(address) => hasher.write(&address.octets()),
                IpAddr::V6(address) => hasher.write(&address.octets()),
            }
            hasher.write_u16(backend.port.or(spec.port).unwrap_or(0).to_be());
            hasher.finish()
        };
        let cookies =
            backends.iter().map(|own| format!("{cookie}={:016x}{attributes}", value(own)));
        Self { name: cookie.clone(), cookies: cookies.collect() }
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// The cookie of the backend at `place`, with its attributes.
    pub(crate) fn cookie(&self, place: usize) -> Option<&str> {
        self.cookies.get(place).map(String::as_str)
    }

    /// Whether the cookie's value `value` is that of the backend at `place`.
    pub(crate) fn is_of(&self, place: usize, value: &[u8]) -> bool {
        let from = self.name.len() + 1;
        let own = self.cookie(place).and_then(|cookie| cookie.get(from..from + DIGITS));
        own.is_some_and(|own| own.as_bytes() == value)
    }
}
