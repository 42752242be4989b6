//! The connection to a backend.
use std::net::SocketAddr;

use crate::endpoint::{Endpoint, Stage};
use crate::stack::Stack;

/// A connection to a backend, which a client's requests use one after the other.
pub(crate) struct Upstream {
    pub(crate) tcp: Stack,
    pub(crate) backend: SocketAddr,
    pub(crate) local: SocketAddr,
    pub(crate) opened_ms: u64,
    /// Whether a response has come by it.
    pub(crate) is_used: bool,
}

impl Upstream {
    /// Whether another request may be sent.
    pub(crate) fn is_usable(&self) -> bool {
        self.tcp.stage() == Stage::Open && !self.tcp.has_ended()
    }
}
