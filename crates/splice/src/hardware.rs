//! Connections whose backend's packets a card may send on by itself, so that the agent
//! does not see them (docs/internals/offload.md, "Spliced connections").
//!
//! A card adds a number to every sequence number and to every acknowledgement number, and
//! looks at no option and at no data. That gives the packets that the agent would give as
//! long as
//!
//! - no replaced piece is on its way in either direction, so that both numbers are
//!   constant;
//! - the backend's clock is the one that the client sees, or there are no timestamps;
//! - windows mean the same on both sides;
//! - the backend has no reason for selective acknowledgements, or its numbers for the
//!   client's bytes are the client's own;
//! - all that the backend may send is the rest of one response, or is never read.
//!
//! The client's packets stay with the agent: they have selective acknowledgements nearly
//! always, the next request may be among them, and from them the agent learns how much of
//! the response has arrived. A request that comes while there may be a rule
//! [waits](Conn::loan) until there is none.
use std::net::SocketAddr;

use flow::ServiceId;

use crate::connection::{Conn, Reading, State};
use crate::edits::before;
use crate::steady::Steady;
use crate::world::Peer;

/// The number under which the world has lent a connection to a card.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Loan(pub u32);

/// What a card needs to know of a connection to send its backend's packets on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Constant {
    /// The service.
    pub service: ServiceId,
    /// The client and the VIP.
    pub ends: [SocketAddr; 2],
    /// The backend.
    pub backend: Peer,
    /// What is added to its sequence and acknowledgement numbers.
    pub added: [u32; 2],
    /// How long the connection may be silent, in milliseconds.
    pub idle_ms: u64,
}

/// How much of a response must be still to come so that a rule is worth while, or have come
/// of bytes that are not read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Worth(pub u64);

impl Worth {
    /// Anything.
    pub(crate) const LEAST: Self = Self(1);
}

impl Conn {
    /// What a card adds to the backend's numbers, if it may send the backend's packets on
    /// and that is `worth` it.
    pub(crate) fn constant(&self, worth: Worth) -> Option<[u32; 2]> {
        let steady = Steady::of(self)?;
        let quiet = match self.reading {
            // Whatever the client sends, numbers stay as they are.
            Reading::All => !steady.is_fragile(),
            // The backend has all that the client has sent.
            Reading::Header => !before(self.received, self.limit()),
            _ => false,
        };
        let coming = self.still_coming().is_some_and(|coming| coming >= worth.0);
        if quiet && coming { steady.added() } else { None }
    }

    /// Bytes that the backend is still to send, or that it has sent if that has no end.
    /// `None`: what it may send has to be read.
    fn still_coming(&self) -> Option<u64> {
        if self.reading == Reading::All || (!self.blind && self.responses.is_all()) {
            return Some(self.acked.wrapping_sub(self.cookie).into());
        }
        let rest = self.responses.rest().filter(|_| !self.blind)?;
        let acked = self.to_server(self.acked, false);
        let known = if before(acked, self.response_next) {
            self.response_next.wrapping_sub(acked)
        } else {
            0
        };
        Some(rest + u64::from(known))
    }

    /// Whether a SYN of its client's begins another connection.
    pub(crate) const fn may_begin_anew(&self) -> bool {
        matches!(self.state, State::Answered | State::Closing | State::Reset)
    }

    /// Whether the client has acknowledged bytes that should have been read.
    pub(crate) fn has_missed(&self) -> bool {
        let acked = self.to_server(self.acked, false);
        !self.blind && !self.responses.is_all() && before(self.response_next, acked)
    }
}
