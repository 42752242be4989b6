//! What the terminator needs of its surroundings.
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use flow::{Account, BackendId, ServiceId};
use splice::{Changes, Inquiry, Peer, Record, Refusal, Rejection, Request, Response};
use tls::{BackendTls, Finished, Refused, Started, Tls};

use crate::event::Event;

/// How a service speaks to its clients.
#[derive(Debug)]
pub struct Terms {
    /// Its side of handshakes.
    pub tls: Tls,
    /// The value of `Strict-Transport-Security` (RFC 6797), if there is one.
    pub hsts: Option<String>,
    /// Its side of TLS towards backends; `None`: they are spoken to by TCP alone.
    pub backends: Option<BackendTls>,
    /// What is in the records.
    pub carries: Carries,
    /// Whether backends get a client's whole certificate, beside the fields made of it.
    pub whole_certificate: bool,
}

/// What clients send in their records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Carries {
    /// Requests of HTTP, each of which is routed.
    Requests,
    /// Bytes that go to one backend as they are.
    Bytes,
}

/// What a client has asked for in its handshake.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Wish<'a> {
    /// The server name, in lower case.
    pub name: Option<&'a str>,
    /// The protocol agreed upon.
    pub protocol: Option<&'a str>,
}

/// Where a request goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Route {
    /// To a backend.
    Backend {
        /// The backend.
        backend: Peer,
        /// Whether the response is to say by a cookie which backend it comes from.
        sticks: bool,
    },
    /// To none: the answer, and its status code.
    Answer(Vec<u8>, u16),
}

/// What surrounds the terminator: the network, the services, and the pool of handshakes.
pub trait World {
    /// Sends an IP packet on its way to `to`.
    fn send(&mut self, packet: Vec<u8>, to: IpAddr);

    /// How `service` speaks to clients; `None`: it terminates nothing.
    fn terms(&mut self, service: ServiceId) -> Option<Arc<Terms>>;

    /// Where a request goes.
    ///
    /// # Errors
    /// Why it goes nowhere.
    fn route(&mut self, inquiry: &Inquiry<'_>, request: &Request<'_>) -> Result<Route, Refusal>;

    /// Where a connection goes whose records are not read.
    ///
    /// # Errors
    /// Why it goes nowhere.
    fn direct(&mut self, inquiry: &Inquiry<'_>, wish: &Wish<'_>) -> Result<Peer, Rejection>;

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

    /// Whether each connection to a backend of the service begins with a header of the PROXY
    /// protocol.
    fn has_proxy_header(&self, _: ServiceId) -> bool {
        false
    }

    /// Takes the packets from a backend to this end of ours from now on. `false`: they
    /// can't be told from others.
    fn claim(&mut self, backend: SocketAddr, local: SocketAddr) -> bool;

    /// Gives up a claim.
    fn release(&mut self, backend: SocketAddr, local: SocketAddr);

    /// Gives a handshake to the pool.
    ///
    /// # Errors
    /// Too many wait.
    fn start(&mut self, started: Started) -> Result<(), Refused>;

    /// A handshake that the pool is through with.
    fn finished(&mut self) -> Option<Finished>;

    /// A backend's certificate is not believed, or it does not keep to TLS.
    fn distrust(&mut self, backend: SocketAddr, why: &str);

    /// A backend has one connection more.
    fn joined(&mut self, _: BackendId) {}

    /// A backend has one connection less.
    fn left(&mut self, _: BackendId) {}

    /// A packet of so many bytes from the IP header on went to a backend, or came from one.
    fn carried(&mut self, _: Account, _: usize) {}

    /// A backend has answered a request.
    fn responded(&mut self, _: &Response) {}

    /// A request to a service was answered by no backend, with this status code.
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

    /// Counts an event.
    fn count(&mut self, event: Event);
}
