//! How backends are told who the client is.
use crate::word::words;

words! {
    /// How backends are told who the client is, in front of its first byte.
    ProxyProtocol: "proxy_protocol" {
        /// By the binary header of the PROXY protocol: the addresses and ports of the client and of the VIP, the name that the client asks for, and a number.
        V2 => "v2",
    }
}
