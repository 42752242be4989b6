//! What a service balances.
use crate::Transport;
use crate::word::words;

words! {
    /// What a service balances: packets of a transport protocol, or requests of a protocol above it.
    Protocol: "protocol" {
        /// Connections over TCP (RFC 9293).
        Tcp => "tcp",
        /// Flows of UDP (RFC 768).
        Udp => "udp",
        /// Requests of HTTP/1 (RFC 9112) over TCP: HNLB answers the client's SYN itself, reads the request, and chooses the backend by it.
        Http => "http",
    }
}

impl Protocol {
    /// The transport protocol of its packets.
    #[must_use]
    pub const fn transport(self) -> Transport {
        match self {
            Self::Tcp | Self::Http => Transport::Tcp,
            Self::Udp => Transport::Udp,
        }
    }
}
