//! What a health check asks.
use crate::word::words;

words! {
    /// What a health check asks a backend.
    Check: "check" {
        /// A TCP handshake.
        Tcp => "tcp",
        /// A GET request over HTTP/1.1.
        Http => "http",
        /// A GET request over HTTPS. The certificate is not verified.
        Https => "https",
        /// A DNS query over UDP. Responses with the codes NOERROR and NXDOMAIN pass.
        Dns => "dns",
        /// An ICMP echo.
        Icmp => "icmp",
        /// `grpc.health.v1.Health/Check` over HTTP/2 in the clear. The status SERVING passes.
        Grpc => "grpc",
        /// A program. Exit status 0 passes.
        Command => "command",
        /// HNLB sends no probes: only passive signals count.
        Passive => "passive",
    }
}
