//! One end of a connection to a backend: TCP alone, or TLS over it.
use tls::BackendSession;

use crate::endpoint::{Endpoint, Stage};
use crate::stack::Stack;

/// Plain bytes that are held before more are opened.
const HELD: usize = 16 * 1024;
/// Room that a record and the end of the connection need beside their plain bytes.
const SPARE: usize = 128;

/// A connection to a backend.
pub(crate) enum Link {
    /// TCP alone.
    Plain(Box<Stack>),
    /// TLS over TCP.
    Sealed(Box<Sealed>),
}

/// TLS towards a backend.
pub(crate) struct Sealed {
    tcp: Stack,
    session: BackendSession,
    plain: Vec<u8>,
    consumed: usize,
    /// Sealed bytes that TCP has no room for yet.
    unsent: Vec<u8>,
    /// Whether the backend has been believed once.
    opened: bool,
    closing: bool,
    /// Why the connection is over.
    failure: Option<String>,
}

impl Sealed {
    pub(crate) const fn new(tcp: Stack, session: BackendSession) -> Self {
        Self {
            tcp,
            session,
            plain: Vec::new(),
            consumed: 0,
            unsent: Vec::new(),
            opened: false,
            closing: false,
            failure: None,
        }
    }

    fn unread(&self) -> usize {
        self.plain.len() - self.consumed
    }

    /// Opens what has come, and hands TCP what is sealed.
    fn pump(&mut self) {
        while self.failure.is_none() && self.unread() < HELD {
            let bytes = self.tcp.readable();
            if bytes.is_empty() {
                break;
            }
            if self.consumed > 0 {
                self.plain.drain(..self.consumed);
                self.consumed = 0;
            }
            match self.session.open(bytes, &mut self.plain) {
                Ok(0) => break,
                Ok(taken) => self.tcp.consume(taken),
                Err(error) => self.failure = Some(error.to_string()),
            }
        }
        self.opened |= !self.session.is_handshaking();
        if self.tcp.has_opened() {
            self.session.seal(&mut self.unsent);
            let written = self.tcp.write(&self.unsent);
            self.unsent.drain(..written);
        }
        if (self.closing || self.failure.is_some()) && self.unsent.is_empty() {
            self.tcp.close();
        }
    }
}

impl Link {
    fn tcp(&self) -> &Stack {
        match self {
            Self::Plain(tcp) => tcp,
            Self::Sealed(own) => &own.tcp,
        }
    }

    fn tcp_mut(&mut self) -> &mut Stack {
        match self {
            Self::Plain(tcp) => tcp,
            Self::Sealed(own) => &mut own.tcp,
        }
    }

    /// Sends `front` in front of all else, and of TLS, too.
    pub(crate) fn begin_with(&mut self, front: &[u8]) {
        self.tcp_mut().begin_with(front);
    }

    /// The path takes no packets longer than `longest`, as is said of one that was sent.
    pub(crate) fn shorten(&mut self, longest: usize, sequence: u32) -> bool {
        self.tcp_mut().shorten(longest, sequence)
    }

    /// Whether the backend has taken the connection, and is believed.
    pub(crate) const fn has_opened(&self) -> bool {
        match self {
            Self::Plain(tcp) => tcp.has_opened(),
            Self::Sealed(own) => own.opened,
        }
    }

    /// Why TLS has failed, said once.
    pub(crate) fn take_failure(&mut self) -> Option<String> {
        match self {
            Self::Plain(_) => None,
            Self::Sealed(own) if own.opened => None,
            // What is said is said; the connection stays over.
            Self::Sealed(own) => own.failure.as_mut().map(std::mem::take),
        }
    }
}

impl Endpoint for Link {
    fn take(&mut self, packet: Vec<u8>) {
        self.tcp_mut().take(packet);
    }

    fn poll(&mut self, now_ms: u64) {
        self.tcp_mut().poll(now_ms);
        if let Self::Sealed(own) = self {
            own.pump();
            own.tcp.poll(now_ms);
        }
    }

    fn due_ms(&mut self, now_ms: u64) -> Option<u64> {
        self.tcp_mut().due_ms(now_ms)
    }

    fn outgoing(&mut self) -> Option<Vec<u8>> {
        self.tcp_mut().outgoing()
    }

    fn stage(&self) -> Stage {
        match self {
            Self::Sealed(own) if own.failure.is_some() => Stage::Closed,
            Self::Sealed(own) if !own.opened => match own.tcp.stage() {
                // A backend that ends the connection now will never be believed.
                Stage::Open if own.tcp.has_ended() => Stage::Closed,
                Stage::Open => Stage::Opening,
                stage => stage,
            },
            _ => self.tcp().stage(),
        }
    }

    fn has_ended(&self) -> bool {
        match self {
            Self::Plain(tcp) => tcp.has_ended(),
            Self::Sealed(own) => {
                let over = own.failure.is_some() || own.session.has_closed() || own.tcp.has_ended();
                over && own.unread() == 0
            }
        }
    }

    fn is_reset(&self) -> bool {
        match self {
            Self::Plain(tcp) => tcp.is_reset(),
            // An end that the backend has not sealed may be anybody's (RFC 8446 section 6.1).
            Self::Sealed(own) => own.failure.is_some() || !own.session.has_closed(),
        }
    }

    fn readable(&mut self) -> &[u8] {
        match self {
            Self::Plain(tcp) => tcp.readable(),
            Self::Sealed(own) => own.plain.get(own.consumed..).unwrap_or_default(),
        }
    }

    fn consume(&mut self, n: usize) {
        match self {
            Self::Plain(tcp) => tcp.consume(n),
            Self::Sealed(own) => {
                own.consumed = (own.consumed + n).min(own.plain.len());
                own.pump();
            }
        }
    }

    fn room(&self) -> usize {
        match self {
            Self::Plain(tcp) => tcp.room(),
            Self::Sealed(own) if own.opened && !own.closing && own.failure.is_none() => {
                own.tcp.room().saturating_sub(own.unsent.len() + SPARE).min(HELD)
            }
            Self::Sealed(_) => 0,
        }
    }

    fn write(&mut self, bytes: &[u8]) -> usize {
        let room = self.room();
        match self {
            Self::Plain(tcp) => tcp.write(bytes),
            Self::Sealed(own) => {
                let bytes = bytes.get(..room.min(bytes.len())).unwrap_or_default();
                own.session.write(bytes);
                own.pump();
                bytes.len()
            }
        }
    }

    fn unacknowledged(&self) -> usize {
        match self {
            Self::Plain(tcp) => tcp.unacknowledged(),
            Self::Sealed(own) => own.unsent.len() + own.tcp.unacknowledged(),
        }
    }

    fn close(&mut self) {
        match self {
            Self::Plain(tcp) => tcp.close(),
            Self::Sealed(own) => {
                if !own.closing {
                    own.closing = true;
                    own.session.close();
                    own.pump();
                }
            }
        }
    }

    fn abort(&mut self) {
        self.tcp_mut().abort();
    }
}
