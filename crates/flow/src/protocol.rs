//! What a service balances.
use crate::Transport;
use crate::word::words;

words! {
    /// What a service balances: packets of a transport protocol, or requests of a protocol above it.
    Protocol: "protocol" {
        /// TCP connections (RFC 9293).
        Tcp => "tcp",
        /// UDP flows (RFC 768).
        Udp => "udp",
        /// HTTP/1 requests (RFC 9112) over TCP: HNLB answers the client's SYN itself, reads the request, and chooses the backend by it.
        Http => "http",
        /// TCP connections that begin with TLS (RFC 8446): HNLB answers the client's SYN itself, reads the ClientHello, and chooses the backend by the server name and the ALPN protocols in it. HNLB decrypts nothing, unless the service has `terminate`: then HNLB has the certificates, and backends get the decrypted bytes.
        Tls => "tls",
        /// HTTP/1 requests over TLS (RFC 9110 section 4.2.2): HNLB has the certificates, terminates the client's TCP and TLS, and sends the requests to backends over TCP.
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
