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
        /// Connections over TCP that begin with TLS (RFC 8446): HNLB answers the client's SYN itself, reads the ClientHello, and chooses the backend by the server name and the ALPN protocols in it. Nothing is decrypted, unless the service has `terminate`: then HNLB has the certificates, and backends get what is in the records.
        Tls => "tls",
        /// Requests of HTTP/1 over TLS (RFC 9110 section 4.2.2): HNLB has the certificates, ends TCP and TLS towards the client, and sends the requests to backends over TCP.
        Https => "https",
    }
}

impl Protocol {
    /// Whether connections have routes: HNLB reads what clients send first.
    #[must_use]
    pub const fn is_routed(self) -> bool {
        matches!(self, Self::Http | Self::Https | Self::Tls)
    }

    /// The transport protocol of its packets.
    #[must_use]
    pub const fn transport(self) -> Transport {
        match self {
            Self::Tcp | Self::Http | Self::Https | Self::Tls => Transport::Tcp,
            Self::Udp => Transport::Udp,
        }
    }
}
