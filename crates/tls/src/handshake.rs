//! One handshake: bytes from the client in, bytes for the client out, and in the end the
//! connection's secrets.
use std::sync::Arc;

use rustls::server::UnbufferedServerConnection;
use rustls::unbuffered::{ConnectionState, EncodeError, UnbufferedStatus};

use crate::certificate::Named;
use crate::client::{ClientCertificate, ClientRefusal};
use crate::secrets::{Secrets, Successor, apart};
use crate::server::Tls;

/// The most that a client may send before its handshake is done, in bytes: a hello with a
/// certificate chain and early records.
const MOST_BYTES: usize = 64 * 1024;

/// A handshake that has begun.
pub struct Handshake {
    connection: UnbufferedServerConnection,
    named: Arc<Named>,
    /// Bytes that no whole message is made of yet.
    incoming: Vec<u8>,
    received: usize,
    /// Data that came with the last message.
    early: Vec<u8>,
    /// Whether the client has ended its stream (close_notify).
    closed: bool,
}

impl std::fmt::Debug for Handshake {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Handshake({} bytes)", self.received)
    }
}

/// How far a handshake is.
#[derive(Debug)]
pub enum Progress {
    /// The client must say more.
    More(Box<Handshake>),
    /// It is done.
    Established(Box<Established>),
}

/// What a handshake leads to.
#[derive(Debug)]
pub struct Established {
    /// For the worker.
    pub secrets: Secrets,
    /// For key updates.
    pub successor: Successor,
    /// Data of the client's that came with its last message.
    pub data: Vec<u8>,
    /// Whether the client has ended its stream behind that data.
    pub closed: bool,
    /// Bytes of records that are not whole yet.
    pub rest: Vec<u8>,
    /// The name that the client has asked for (RFC 6066), in lower case.
    pub server_name: Option<String>,
    /// The protocol agreed upon (RFC 7301).
    pub alpn: Option<String>,
    /// The client's own certificate.
    pub client_certificate: Option<Box<ClientCertificate>>,
}

/// A handshake failed. What the client is told is among the outgoing bytes.
#[derive(Debug, thiserror::Error)]
pub enum HandshakeError {
    /// rustls refuses.
    #[error("{0}")]
    Tls(#[from] rustls::Error),
    /// The client sends and sends.
    #[error("the client has sent {MOST_BYTES} bytes and the handshake isn't done")]
    TooLong,
    /// The client has gone in the middle.
    #[error("the client has closed the connection before the handshake was done")]
    Closed,
    /// A bug in the code that reads the client's bytes.
    #[error("the thread of the handshake has panicked; please report what it printed")]
    Panicked,
    /// rustls has taken the client's certificate, and x509-parser can't read it.
    #[error("the client's certificate can't be read")]
    Unreadable,
    /// A version or suite that records know nothing of.
    #[error("a version or cipher suite was agreed upon that records know nothing of")]
    Unknown,
}

impl HandshakeError {
    /// What is wrong with the client's certificate, if that is why.
    #[must_use]
    pub fn client(&self) -> Option<ClientRefusal> {
        match self {
            Self::Tls(error) => ClientRefusal::of(error),
            Self::Unreadable => Some(ClientRefusal::Invalid),
            _ => None,
        }
    }
}

impl Handshake {
    /// A handshake that knows nothing of the client yet.
    ///
    /// # Errors
    /// rustls refuses the configuration.
    pub fn new(tls: &Tls) -> Result<Box<Self>, HandshakeError> {
        let (config, named) = tls.handshake();
        let connection = UnbufferedServerConnection::new(config)?;
        let (incoming, early) = (Vec::new(), Vec::new());
        Ok(Box::new(Self { connection, named, incoming, received: 0, early, closed: false }))
    }

    /// Takes bytes of the client's; what it is to be sent goes to the end of `out`, after
    /// an error, too.
    ///
    /// # Errors
    /// [`HandshakeError`]; the handshake is over.
    pub fn feed(
        mut self: Box<Self>,
        bytes: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<Progress, HandshakeError> {
        self.received += bytes.len();
        if self.received > MOST_BYTES {
            return Err(HandshakeError::TooLong);
        }
        self.incoming.extend_from_slice(bytes);
        loop {
            let UnbufferedStatus { discard, state, .. } =
                self.connection.process_tls_records(&mut self.incoming);
            let mut step = Step::On;
            match state {
                Ok(ConnectionState::EncodeTlsData(mut data)) => {
                    append(out, |space| data.encode(space))?
                }
                Ok(ConnectionState::TransmitTlsData(data)) => data.done(),
                Ok(ConnectionState::BlockedHandshake) => step = Step::Wait,
                Ok(ConnectionState::WriteTraffic(_)) => step = Step::Done,
                Ok(ConnectionState::PeerClosed) => self.closed = true,
                Ok(ConnectionState::ReadTraffic(mut data)) => {
                    while let Some(record) = data.next_record() {
                        self.early.extend_from_slice(record?.payload);
                    }
                }
                Ok(_) => step = Step::Closed,
                Err(error) => {
                    self.incoming.drain(..discard);
                    self.last_words(out);
                    return Err(error.into());
                }
            }
            self.incoming.drain(..discard);
            match step {
                Step::On => {}
                Step::Wait if self.closed => return Err(HandshakeError::Closed),
                Step::Wait => return Ok(Progress::More(self)),
                Step::Done => return self.established(),
                Step::Closed => return Err(HandshakeError::Closed),
            }
        }
    }

    /// The alert that an error has led to, behind what was to be sent before it. rustls keeps
    /// places in the bytes that were not discarded, so it gets the same again.
    fn last_words(&mut self, out: &mut Vec<u8>) {
        // With nothing left to send rustls would read on, and fail again.
        while self.connection.wants_write() {
            let UnbufferedStatus { state, .. } =
                self.connection.process_tls_records(&mut self.incoming);
            let Ok(ConnectionState::EncodeTlsData(mut data)) = state else { return };
            // Without it the client learns nothing but that the connection ends.
            if append(out, |space| data.encode(space)).is_err() {
                return;
            }
        }
    }

    fn established(self) -> Result<Progress, HandshakeError> {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let alpn = self.connection.alpn_protocol().map(text);
        let certificates = self.connection.peer_certificates();
        let client_certificate = match certificates.and_then(|chain| chain.first()) {
            None => None,
            Some(own) => {
                let read = ClientCertificate::read(own).ok_or(HandshakeError::Unreadable)?;
                Some(Box::new(read))
            }
        };
        let (secrets, kernel) = self.connection.dangerous_into_kernel_connection()?;
        let (secrets, successor) = apart(&secrets, kernel).ok_or(HandshakeError::Unknown)?;
        Ok(Progress::Established(Box::new(Established {
            secrets,
            successor,
            data: self.early,
            closed: self.closed,
            rest: self.incoming,
            server_name: self.named.name().map(str::to_owned),
            alpn,
            client_certificate,
        })))
    }
}

enum Step {
    On,
    Wait,
    Done,
    Closed,
}

/// Lets `encode` write to the end of `out`.
fn append(
    out: &mut Vec<u8>,
    mut encode: impl FnMut(&mut [u8]) -> Result<usize, EncodeError>,
) -> Result<(), HandshakeError> {
    let start = out.len();
    let mut room = 4096;
    loop {
        out.resize(start + room, 0);
        match encode(out.get_mut(start..).unwrap_or_default()) {
            Ok(written) => {
                out.truncate(start + written);
                return Ok(());
            }
            Err(EncodeError::InsufficientSize(error)) if error.required_size > room => {
                room = error.required_size;
            }
            Err(error) => {
                out.truncate(start);
                return Err(rustls::Error::General(error.to_string()).into());
            }
        }
    }
}
