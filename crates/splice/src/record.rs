//! What is logged of a request.
use std::net::SocketAddr;

use arrayvec::ArrayString;
use flow::ServiceId;

use crate::Peer;
use crate::request::Request;

/// Why a request has no whole response of a backend, beside the names of refusals: the
/// connection has ended before.
pub const ABORTED: &str = "aborted";
/// Where the response begins or ends got lost on the way, so that it was not read.
pub const UNREAD: &str = "unread";

/// A request and what became of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record {
    /// When its header was whole, by the agent's clock.
    pub at_ms: u64,
    /// Who has sent it.
    pub client: SocketAddr,
    /// To which service.
    pub service: ServiceId,
    /// The place of its route among those of the service; `None`: it matches none.
    pub route: Option<u16>,
    /// The backend that got it, if one did.
    pub backend: Option<Peer>,
    /// Its method, host and path; of long ones the beginning.
    pub method: ArrayString<16>,
    /// The host that it names.
    pub host: ArrayString<128>,
    /// The path without the query.
    pub path: ArrayString<256>,
    /// The number that its backend gets as X-Request-Id.
    pub id: u64,
    /// The status code of the final response; 0: none has come.
    pub status: u16,
    /// Bytes of the request, and of the response as the backend has sent it.
    pub bytes: [u64; 2],
    /// From its departure to the end of the response's header.
    pub first_byte_ms: Option<u32>,
    /// From [`Self::at_ms`] to the last byte.
    pub duration_ms: u64,
    /// Why there is no whole response of a backend; empty if there is one.
    pub why: &'static str,
}

impl Record {
    /// The record of a request of `client` to `service`, of which nothing is known yet but
    /// its header, if that could be read.
    #[must_use]
    pub fn new(
        (client, service): (SocketAddr, ServiceId),
        request: Option<&Request<'_>>,
        at_ms: u64,
    ) -> Self {
        Self {
            at_ms,
            client,
            service,
            route: None,
            backend: None,
            method: request.map_or_else(ArrayString::new, |own| beginning(own.method)),
            host: request.map_or_else(ArrayString::new, |own| beginning(own.host)),
            path: request.map_or_else(ArrayString::new, |own| beginning(own.path)),
            id: 0,
            status: 0,
            bytes: [request.map_or(0, |own| own.length as u64), 0],
            first_byte_ms: None,
            duration_ms: 0,
            why: "",
        }
    }
}

/// As much of `text` as there is room for, in whole characters.
fn beginning<const N: usize>(text: &str) -> ArrayString<N> {
    let mut kept = ArrayString::new();
    let _ = text.chars().try_for_each(|letter| kept.try_push(letter));
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_name_is_cut_between_two_characters() {
        let long = format!("{}é", "x".repeat(15));
        assert_eq!(beginning::<16>(&long).as_str(), "x".repeat(15));
        assert_eq!(beginning::<17>(&long).as_str(), long);
    }
}
