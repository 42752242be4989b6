//! What is counted.
use splice::{Refusal, Rejection};
use tls::ClientRefusal;

/// Something that happened to a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// A client's SYN was taken.
    Opened,
    /// A client's handshake is done.
    Established,
    /// The client speaks HTTP/2.
    Http2,
    /// A client sent more frames of HTTP/2 that only cost than it may, or began a header and
    /// did not end it.
    Flood,
    /// A handshake failed: the client and the service agree on nothing, or the client
    /// sent something that is no handshake.
    HandshakeFailed,
    /// A client's certificate was not taken.
    ClientRefused(ClientRefusal),
    /// As many handshakes of the service or of the client's network wait as may.
    HandshakeRefused,
    /// The handshake was not done in time.
    HandshakeSlow,
    /// A record could not be opened, or the client wanted to negotiate again.
    BadRecord,
    /// A request was sent to a backend.
    Request,
    /// A request was answered with an error.
    Refused(Refusal),
    /// A connection was given to a backend as it is.
    Directed,
    /// A connection was ended, since it goes to no backend.
    Rejected(Rejection),
    /// A client ended its stream without saying so within TLS: its backend was reset.
    Cut,
    /// A request was answered with a redirect or a page, of this status code.
    Answered(u16),
    /// A backend did not take a connection.
    BackendFailed,
    /// A connection had to make room for another, or there was none for it.
    NoRoom,
    /// A response could not be read, or ended too early.
    BadResponse,
    /// A connection was silent for too long.
    Idle,
    /// A router said that a packet was too long for the path, and the next are shorter.
    PathShort,
    /// A packet of no known connection.
    Unknown,
}
