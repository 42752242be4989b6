//! What a probe asks a backend, and which answer passes.
use std::ops::RangeInclusive;

/// What a probe sends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Check {
    /// A TCP handshake.
    Tcp,
    /// A request over HTTP/1.1.
    Http(HttpCheck),
    /// The same over TLS, whose certificate is not verified.
    Https(HttpCheck),
    /// A query over UDP; passes with any answer of the code NOERROR or NXDOMAIN.
    Dns {
        /// The name that is asked for, type A or AAAA.
        name: String,
    },
    /// An ICMP echo.
    Icmp,
    /// `grpc.health.v1.Health/Check` over HTTP/2 in the clear.
    Grpc {
        /// The service's name in the request; empty: the whole server.
        service: String,
    },
    /// A program; passes with exit status 0.
    Command {
        /// The program and its arguments. `HNLB_SERVICE`, `HNLB_ADDRESS` and
        /// `HNLB_PORT` in its environment name the backend.
        argv: Vec<String>,
    },
}

/// A request and the answer that passes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HttpCheck {
    /// The path and query.
    pub path: String,
    /// The header `Host`, and the server's name in TLS; `None`: the address.
    pub host: Option<String>,
    /// Further headers.
    pub headers: Vec<(String, String)>,
    /// The status codes that pass.
    pub status: RangeInclusive<u16>,
    /// Text that the first 64 KiB of the body must have; empty: any body passes.
    pub body: String,
}
