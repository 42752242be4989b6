//! The records of an established connection: all that a worker does, with nothing but
//! the connection's secrets.
use std::ops::Range;

use crate::record::{Cipher, ContentType, Record, RecordError};
use crate::secrets::{Secrets, TrafficKey, Version};

/// Records in a row that carry no data before the connection is ended: empty ones and
/// key updates cost as much as others.
const MOST_IDLE: u32 = 64;
/// A `KeyUpdate` message (RFC 8446 section 4.6.3) but for its last byte, which says
/// whether the peer is asked for one, too.
const KEY_UPDATE: [u8; 4] = [24, 0, 0, 1];

/// What a record from the client was.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Incoming {
    /// Data, at this place in the record.
    Data(Range<usize>),
    /// The client sends no more (close_notify).
    Close,
    /// The client has a new key. No further record is opened before
    /// [`Session::set_receive`]; with `answer`, [`Session::update_transmit`] is due as well.
    KeyUpdate {
        /// Whether the client asks for a new key of the server's.
        answer: bool,
    },
    /// Nothing to be done.
    Nothing,
}

/// A fatal alert's number (RFC 8446 section 6).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Alert(pub u8);

impl Alert {
    /// close_notify, which is not an error.
    pub const CLOSE: Self = Self(0);
}

/// Why a session ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SessionError {
    /// A record.
    #[error(transparent)]
    Record(#[from] RecordError),
    /// The client wants to negotiate again.
    #[error("the client wants to negotiate again")]
    Renegotiation,
    /// A message that an established connection has no use for.
    #[error("a message that an established connection has no use for")]
    Unexpected,
    /// The client has sent too many records without data.
    #[error("the client has sent {MOST_IDLE} records in a row without data")]
    Idle,
    /// The client has sent an alert.
    #[error("the client has sent the alert {0}")]
    Alert(u8),
    /// A record came before the key that it is sealed with.
    #[error("the key of the record is not there yet")]
    NoKey,
}

impl SessionError {
    /// What the client is told.
    #[must_use]
    pub const fn alert(self) -> Option<Alert> {
        match self {
            Self::Record(RecordError::Sealed) => Some(Alert(20)),
            Self::Record(RecordError::Length) => Some(Alert(22)),
            Self::Record(RecordError::UsedUp | RecordError::Room) => Some(Alert(80)),
            Self::Record(_) | Self::Unexpected | Self::Idle => Some(Alert(10)),
            Self::Renegotiation => Some(Alert(100)),
            Self::Alert(_) | Self::NoKey => None,
        }
    }
}

/// The records of one connection in both directions.
#[derive(Debug)]
pub struct Session {
    version: Version,
    transmit: Cipher,
    receive: Option<Cipher>,
    idle: u32,
    closed: bool,
}

impl Session {
    /// A session with these secrets; `None`: they are not of a suite's length.
    #[must_use]
    pub fn new(secrets: &Secrets) -> Option<Self> {
        let Secrets { version, transmit, receive } = secrets;
        Some(Self {
            version: *version,
            transmit: Cipher::new(*version, transmit)?,
            receive: Some(Cipher::new(*version, receive)?),
            idle: 0,
            closed: false,
        })
    }

    /// The version that both sides speak.
    #[must_use]
    pub const fn version(&self) -> Version {
        self.version
    }

    /// The outline of the record at the front of `bytes`, as [`Record::peek`].
    ///
    /// # Errors
    /// The header can't be.
    pub fn peek(&self, bytes: &[u8]) -> Result<Option<Record>, RecordError> {
        Record::peek(bytes, self.version)
    }

    /// Opens a whole record in place.
    ///
    /// # Errors
    /// [`SessionError`]; the connection is over, and [`SessionError::alert`] says what the
    /// client is told.
    pub fn open(&mut self, record: &mut [u8]) -> Result<Incoming, SessionError> {
        if self.closed {
            return Err(SessionError::Unexpected);
        }
        let cipher = self.receive.as_mut().ok_or(SessionError::NoKey)?;
        let (kind, place) = cipher.open(record)?;
        let payload = record.get(place.clone()).unwrap_or(&[]);
        if kind == ContentType::Data && !payload.is_empty() {
            self.idle = 0;
            return Ok(Incoming::Data(place));
        }
        self.idle += 1;
        if self.idle > MOST_IDLE {
            return Err(SessionError::Idle);
        }
        match kind {
            ContentType::Data => Ok(Incoming::Nothing),
            ContentType::Alert => self.alert(payload),
            ContentType::Handshake => self.message(payload),
            ContentType::ChangeCipherSpec => Err(SessionError::Unexpected),
        }
    }

    fn alert(&mut self, payload: &[u8]) -> Result<Incoming, SessionError> {
        match *payload {
            [_, 0] => {
                self.closed = true;
                Ok(Incoming::Close)
            }
            // user_canceled announces a close (RFC 8446 section 6.1); a warning in TLS 1.2
            // is one.
            [_, 90] => Ok(Incoming::Nothing),
            [1, _] if self.version == Version::Tls12 => Ok(Incoming::Nothing),
            [_, number] => Err(SessionError::Alert(number)),
            _ => Err(SessionError::Unexpected),
        }
    }

    fn message(&mut self, payload: &[u8]) -> Result<Incoming, SessionError> {
        if self.version == Version::Tls12 {
            return Err(SessionError::Renegotiation);
        }
        match payload.split_last() {
            Some((&asked @ 0..=1, front)) if front == KEY_UPDATE => {
                self.receive = None;
                Ok(Incoming::KeyUpdate { answer: asked == 1 })
            }
            _ => Err(SessionError::Unexpected),
        }
    }

    /// The client's next key, after [`Incoming::KeyUpdate`].
    ///
    /// # Errors
    /// None was announced, or the key is not of its suite's length.
    pub fn set_receive(&mut self, key: &TrafficKey) -> Result<(), SessionError> {
        if self.receive.is_some() {
            return Err(SessionError::Unexpected);
        }
        self.receive = Cipher::new(self.version, key);
        if self.receive.is_none() { Err(SessionError::NoKey) } else { Ok(()) }
    }

    /// Whether the server's own key has sealed so much that [`Session::update_transmit`]
    /// is due; in TLS 1.2 the connection is to be closed instead.
    #[must_use]
    pub const fn is_worn(&self) -> bool {
        self.transmit.is_worn()
    }

    /// Announces the server's next key and goes over to it; returns the length of the
    /// record in `out`.
    ///
    /// # Errors
    /// No room, or TLS 1.2.
    pub fn update_transmit(
        &mut self,
        key: &TrafficKey,
        out: &mut [u8],
    ) -> Result<usize, SessionError> {
        if self.version == Version::Tls12 {
            return Err(SessionError::Unexpected);
        }
        let next = Cipher::new(self.version, key).ok_or(SessionError::NoKey)?;
        let [kind, a, b, c] = KEY_UPDATE;
        let length = self.transmit.seal(ContentType::Handshake, &[kind, a, b, c, 0], out)?;
        self.transmit = next;
        Ok(length)
    }

    /// Seals data, at most [`crate::MAX_PAYLOAD`] bytes, into the front of `out`, which has
    /// room for [`crate::OVERHEAD`] more; returns the record's length.
    ///
    /// # Errors
    /// Too much data, or no room.
    pub fn seal(&mut self, data: &[u8], out: &mut [u8]) -> Result<usize, SessionError> {
        Ok(self.transmit.seal(ContentType::Data, data, out)?)
    }

    /// Seals an alert.
    ///
    /// # Errors
    /// No room.
    pub fn seal_alert(&mut self, alert: Alert, out: &mut [u8]) -> Result<usize, SessionError> {
        let level = if alert == Alert::CLOSE { 1 } else { 2 };
        Ok(self.transmit.seal(ContentType::Alert, &[level, alert.0], out)?)
    }
}
