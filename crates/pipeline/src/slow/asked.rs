//! What routes ask about a request that the L7 agent or the terminator has read, and about
//! a ClientHello.
use service::{HelloView, RequestView};
use splice::{Hello, Request};

/// A request, as the routes of a service read it.
#[derive(Debug)]
pub struct Asked<'a, 'r>(pub &'a Request<'r>);

impl RequestView for Asked<'_, '_> {
    fn host(&self) -> &str {
        self.0.host
    }

    fn path(&self) -> &str {
        self.0.path
    }

    fn query(&self) -> &str {
        self.0.query()
    }

    fn has_header(&self, name: &str, value: Option<&str>) -> bool {
        let is = |own: &[u8]| value.is_none_or(|value| own == value.as_bytes());
        self.0.values(name).any(is)
    }

    fn has_cookie(&self, name: &str, value: Option<&str>) -> bool {
        let found = self.0.cookie(name);
        found.is_some_and(|own| value.is_none_or(|value| own == value.as_bytes()))
    }
}

/// A ClientHello as routes read it.
#[derive(Debug)]
pub(super) struct Greeting<'a>(pub(super) &'a Hello);

impl HelloView for Greeting<'_> {
    fn name(&self) -> &str {
        let name = self.0.name.as_deref().unwrap_or_default();
        std::str::from_utf8(name).unwrap_or_default()
    }

    fn offers(&self, protocol: &str) -> bool {
        self.0.protocols().any(|own| own == protocol.as_bytes())
    }
}
