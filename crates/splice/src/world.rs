//! What the agent needs of its surroundings.
use std::net::{IpAddr, SocketAddr};

use flow::{Account, BackendId, ServiceId};
use wire::Headers;

use crate::blocks::{Block, FIRST_FLIGHT};
use crate::changes::Changes;
use crate::hardware::{Constant, Loan};
use crate::record::Record;
use crate::request::Request;
use crate::{Hello, Refusal, Rejection};

/// A backend of the world's choice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Peer {
    /// Its address and port.
    pub at: SocketAddr,
    /// Whose counts its packets are.
    pub id: BackendId,
}

/// Where a request goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Choice {
    /// To a backend.
    Backend {
        /// The backend.
        backend: Peer,
        /// What it and its connection get.
        terms: Terms,
    },
    /// To none: the world has written an answer with this status code.
    Answer(u16),
}

/// What clients of a service begin with, and what their backends are chosen by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Speaks {
    /// Requests of HTTP.
    Http,
    /// A ClientHello of TLS. What is behind it is not read.
    Tls,
    /// Anything, which is not read, or nothing: the server may speak first.
    Any,
}

/// How requests and responses of a connection to a backend are treated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Terms {
    /// Whether all requests of the connection go to the backend. Otherwise each is routed
    /// by itself.
    pub keeps: bool,
    /// Whether headers of responses are changed.
    pub rewrites: bool,
    /// Whether the response says by a cookie which backend it comes from.
    pub sticks: bool,
}

/// The header of a response that has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Response {
    /// The service.
    pub service: ServiceId,
    /// Which backend has sent it.
    pub backend: BackendId,
    /// Its status code.
    pub status: u16,
    /// The time from the request's departure to the end of the header, in milliseconds.
    pub waited_ms: u32,
}

/// Who asks for a backend.
#[derive(Clone, Copy, Debug)]
pub struct Inquiry<'a> {
    /// The service.
    pub service: ServiceId,
    /// The client and the VIP.
    pub ends: [SocketAddr; 2],
    /// The backends that have not taken the connection.
    pub tried: &'a [SocketAddr],
    /// The backend of the requests before on the same connection.
    pub kept: Option<SocketAddr>,
}

/// Where the world writes an answer of its own, with which the connection ends.
#[derive(Debug)]
pub struct Answer<'a>(pub(crate) Option<&'a mut Block>);

impl Answer<'_> {
    /// Appends to the answer. `None`: there is no room.
    pub fn push(&mut self, bytes: &[u8]) -> Option<()> {
        self.0.as_mut()?.push(bytes)
    }
}

/// Bytes of an answer, at most.
pub const MAX_ANSWER: usize = FIRST_FLIGHT;

/// Something that is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// A client's connection exists: its handshake is complete.
    Opened,
    /// A SYN was answered by a cookie, since the half-open connections are too many.
    Cookie,
    /// A request was sent to a backend.
    Request,
    /// A ClientHello was sent to a backend.
    Hello,
    /// A connection to a backend began with a header of the PROXY protocol.
    ProxyHeader,
    /// A connection of which nothing is read was reset, since no backend took it.
    Unserved,
    /// A connection that begins with TLS, or should, was ended by the agent.
    Rejected(Rejection),
    /// A request was answered by the agent.
    Refused(Refusal),
    /// A request was answered with a redirect or a page, of this status code.
    Answered(u16),
    /// A backend did not take a connection.
    BackendFailed,
    /// The agent has acknowledged part of a header, since the client repeated it.
    Owned,
    /// The agent has made a packet.
    Made,
    /// Something could not be kept: no free connection, block or packet.
    NoRoom,
    /// A router has marked a packet for a backend that does not know ECN: the packet was
    /// dropped.
    Congested,
    /// A request should have been logged, and there was no room for its record.
    Unlogged,
    /// Both ends were reset: a request behind the first could not be read, or a response.
    Reset,
    /// A connection had to make room for others: that of a slow client, or of an idle one.
    Evicted,
    /// A client sent nothing in time: it was reset.
    Silent,
    /// A client's connection went on to another backend.
    Switched,
}

/// What has become of a packet that was given to the agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It went on.
    Relayed,
    /// The agent took it; if it has sent something instead, that was counted as made.
    Taken,
    /// It belongs to no connection.
    Unknown,
    /// It is no TCP segment.
    Malformed,
}

/// What surrounds the agent: memory for packets, the network, and the choice of backends.
pub trait World<B> {
    /// A packet of `len` bytes; `None` if there is no memory.
    fn fresh(&mut self, len: usize) -> Option<B>;

    /// Sends a received packet on to `to`, which counts for `account`. `headers` says where
    /// its parts are.
    fn relay(&mut self, packet: B, headers: &Headers, to: IpAddr, account: Account);

    /// Sends a packet that the agent has made, but for its Ethernet addresses. It counts for
    /// `account`, unless it is between the client and the agent alone.
    fn send(&mut self, packet: B, to: IpAddr, account: Option<Account>);

    /// What clients of `service` begin with.
    fn speaks(&self, service: ServiceId) -> Speaks;

    /// The backend for a connection of which nothing is read, if there is one besides those
    /// that were tried already.
    fn assign(&mut self, _: &Inquiry<'_>) -> Option<Peer> {
        None
    }

    /// Whether each connection to a backend of the service begins with a header of the PROXY
    /// protocol.
    fn has_proxy_header(&self, _: ServiceId) -> bool {
        false
    }

    /// The backend for a connection that begins with `hello`, if there is one besides
    /// those that were tried already.
    ///
    /// # Errors
    /// Why the connection goes to no backend.
    fn direct(&mut self, inquiry: &Inquiry<'_>, hello: &Hello) -> Result<Peer, Rejection>;

    /// The backend for a request, if there is one besides those that were tried already,
    /// or what is answered in the place of one.
    ///
    /// # Errors
    /// Why the request goes to no backend.
    fn choose(
        &mut self,
        inquiry: &Inquiry<'_>,
        request: &Request<'_>,
        answer: &mut Answer<'_>,
    ) -> Result<Choice, Refusal>;

    /// What is changed in the headers of a service's requests.
    fn request_changes(&self, _: ServiceId) -> Changes<'_> {
        Changes::default()
    }

    /// What is changed in the headers of a service's responses.
    fn response_changes(&self, _: ServiceId) -> Changes<'_> {
        Changes::default()
    }

    /// The cookie that leads a client of the service to the backend again, with its
    /// attributes.
    fn cookie(&self, _: ServiceId, _: SocketAddr) -> Option<&str> {
        None
    }

    /// A backend has one connection more.
    fn joined(&mut self, _: BackendId) {}

    /// A backend has one connection less.
    fn left(&mut self, _: BackendId) {}

    /// A backend has answered a request.
    fn responded(&mut self, _: &Response) {}

    /// The agent has answered a request to a service itself, with this status code.
    fn answered(&mut self, _: ServiceId, _: u16) {}

    /// Whether a request to the service that has come now is logged.
    fn logs(&mut self, _: ServiceId) -> bool {
        false
    }

    /// The place of the route that a request takes among those of the service.
    fn route_of(&self, _: ServiceId, _: &Request<'_>) -> Option<u16> {
        None
    }

    /// Logs a request and what became of it.
    fn log(&mut self, _: &Record) {}

    /// Lends a connection to a card, which is to send on what the backend sends. `None`: there
    /// is no card, or no room.
    fn lend(&mut self, _: &Constant) -> Option<Loan> {
        None
    }

    /// Takes note of a packet of a connection that is lent, one of some. `false`: it has to be
    /// lent anew.
    fn remind(&mut self, _: Loan) -> bool {
        true
    }

    /// Takes back what was lent. `false`: the card may still send on a packet, and the agent
    /// asks again.
    fn take_back(&mut self, _: Loan) -> bool {
        true
    }

    /// Counts an event.
    fn count(&mut self, event: Event);
}
