//! Records: their outline, sealing and opening in place (RFC 8446 section 5; RFC 5246
//! section 6.2 with RFC 5288 and RFC 7905).
use std::ops::Range;

use aws_lc_rs::aead::{
    AES_128_GCM, AES_256_GCM, Aad, CHACHA20_POLY1305, LessSafeKey, Nonce, UnboundKey,
};

use crate::secrets::{Suite, TrafficKey, Version};

/// The header's length.
pub const HEADER_LEN: usize = 5;
/// The most payload of a record.
pub const MAX_PAYLOAD: usize = 1 << 14;
/// The most that a record is longer than its payload: header, explicit nonce or inner
/// type, tag.
pub const OVERHEAD: usize = HEADER_LEN + 8 + 16;
/// The most that follows a header (RFC 8446 section 5.2, RFC 5246 section 6.2.3).
const MAX_BODY_13: usize = MAX_PAYLOAD + 256;
const MAX_BODY_12: usize = MAX_PAYLOAD + 2048;
const TAG: usize = 16;
/// The explicit part of a nonce (RFC 5288 section 3).
const EXPLICIT: usize = 8;

/// What a record is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ContentType {
    /// 20, which only TLS 1.2 gives a meaning.
    ChangeCipherSpec,
    /// 21.
    Alert,
    /// 22.
    Handshake,
    /// 23.
    Data,
}

impl ContentType {
    const fn of(byte: u8) -> Option<Self> {
        match byte {
            20 => Some(Self::ChangeCipherSpec),
            21 => Some(Self::Alert),
            22 => Some(Self::Handshake),
            23 => Some(Self::Data),
            _ => None,
        }
    }

    const fn byte(self) -> u8 {
        match self {
            Self::ChangeCipherSpec => 20,
            Self::Alert => 21,
            Self::Handshake => 22,
            Self::Data => 23,
        }
    }
}

/// Why a record is refused; each ends the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RecordError {
    /// The header's type, version or length can't be.
    #[error("the header of a record can't be")]
    Header,
    /// It was not sealed with the key, or was changed.
    #[error("a record can't be opened")]
    Sealed,
    /// Its inner type can't be.
    #[error("a record is about nothing that there is")]
    Inner,
    /// Its payload is too long.
    #[error("the payload of a record is too long")]
    Length,
    /// The buffer for it is too small.
    #[error("there is no room for a record")]
    Room,
    /// The number of records is used up.
    #[error("the key has sealed or opened as many records as it may")]
    UsedUp,
}

/// The outline of the record at the front of `bytes`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record {
    /// Its outer type.
    pub kind: ContentType,
    /// Its length with the header.
    pub len: usize,
}

impl Record {
    /// Looks at the front of `bytes`; `None`: the header isn't whole yet. The record
    /// itself may not be whole either: compare `len`.
    ///
    /// # Errors
    /// [`RecordError::Header`].
    pub fn peek(bytes: &[u8], version: Version) -> Result<Option<Self>, RecordError> {
        let Some(&[kind, major, minor, high, low]) = bytes.first_chunk::<HEADER_LEN>() else {
            return Ok(None);
        };
        let kind = ContentType::of(kind).ok_or(RecordError::Header)?;
        let body = usize::from(u16::from_be_bytes([high, low]));
        let most = if version == Version::Tls13 { MAX_BODY_13 } else { MAX_BODY_12 };
        if (major, minor) != (3, 3) || body > most || body == 0 {
            return Err(RecordError::Header);
        }
        Ok(Some(Self { kind, len: HEADER_LEN + body }))
    }
}

/// Seals or opens the records of one direction.
pub(crate) struct Cipher {
    key: LessSafeKey,
    iv: [u8; 12],
    sequence: u64,
    /// Records since the key is in use.
    used: u64,
    suite: Suite,
    version: Version,
}

impl std::fmt::Debug for Cipher {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Cipher({:?}, {:?}, {})", self.suite, self.version, self.sequence)
    }
}

impl Cipher {
    /// `None`: the key isn't of its suite's length.
    pub(crate) fn new(version: Version, key: &TrafficKey) -> Option<Self> {
        let algorithm = match key.suite {
            Suite::Aes128Gcm => &AES_128_GCM,
            Suite::Aes256Gcm => &AES_256_GCM,
            Suite::ChaCha20Poly1305 => &CHACHA20_POLY1305,
        };
        let unbound = UnboundKey::new(algorithm, key.bytes()).ok()?;
        let (iv, sequence, suite) = (key.iv, key.sequence, key.suite);
        Some(Self { key: LessSafeKey::new(unbound), iv, sequence, used: 0, suite, version })
    }

    /// Whether the key should give way to its successor.
    pub(crate) const fn is_worn(&self) -> bool {
        self.used >= self.suite.most_records()
    }

    /// Whether the explicit nonce is on the wire.
    fn is_explicit(&self) -> bool {
        self.version == Version::Tls12 && self.suite != Suite::ChaCha20Poly1305
    }

    fn nonce(&self, explicit: [u8; EXPLICIT]) -> Nonce {
        let mut nonce = self.iv;
        let [_, _, _, _, rest @ ..] = &mut nonce;
        if self.is_explicit() {
            rest.copy_from_slice(&explicit);
        } else {
            for (byte, own) in rest.iter_mut().zip(self.sequence.to_be_bytes()) {
                *byte ^= own;
            }
        }
        Nonce::assume_unique_for_key(nonce)
    }

    /// What a tag covers beside the payload: the header (RFC 8446 section 5.2), or
    /// sequence number, type, version and length of the payload (RFC 5246 section
    /// 6.2.3.3). The second value says how many bytes count.
    fn covered(&self, kind: u8, body: u16, payload: u16) -> ([u8; 13], usize) {
        let mut covered = [0; 13];
        let (version, [high, low]) = ([3, 3], body.to_be_bytes());
        if self.version == Version::Tls13 {
            covered[..5].copy_from_slice(&[kind, version[0], version[1], high, low]);
            return (covered, 5);
        }
        let [high, low] = payload.to_be_bytes();
        covered[..8].copy_from_slice(&self.sequence.to_be_bytes());
        covered[8..].copy_from_slice(&[kind, version[0], version[1], high, low]);
        (covered, 13)
    }

    fn count(&mut self) -> Result<(), RecordError> {
        self.sequence = self.sequence.checked_add(1).ok_or(RecordError::UsedUp)?;
        self.used += 1;
        Ok(())
    }

    /// Opens a whole record in place: what it is about, and where its payload is.
    pub(crate) fn open(
        &mut self,
        record: &mut [u8],
    ) -> Result<(ContentType, Range<usize>), RecordError> {
        let outline = Record::peek(record, self.version)?.ok_or(RecordError::Header)?;
        if outline.len != record.len() {
            return Err(RecordError::Header);
        }
        let explicit = if self.is_explicit() { EXPLICIT } else { 0 };
        let start = HEADER_LEN + explicit;
        let sealed = outline.len.checked_sub(start + TAG).ok_or(RecordError::Sealed)?;
        let mut on_wire = [0; EXPLICIT];
        if explicit > 0 {
            on_wire.copy_from_slice(record.get(HEADER_LEN..start).ok_or(RecordError::Sealed)?);
        }
        let body = (outline.len - HEADER_LEN) as u16;
        let (covered, used) = self.covered(outline.kind.byte(), body, sealed as u16);
        let aad = Aad::from(covered.get(..used).unwrap_or(&[]));
        let text = record.get_mut(start..).ok_or(RecordError::Sealed)?;
        let plain = self
            .key
            .open_in_place(self.nonce(on_wire), aad, text)
            .map_err(|_| RecordError::Sealed)?;
        let (kind, length) = if self.version == Version::Tls13 {
            // Only data records are sealed, and the inner type is the last byte that is
            // not zero.
            if outline.kind != ContentType::Data {
                return Err(RecordError::Header);
            }
            let at = plain.iter().rposition(|byte| *byte != 0).ok_or(RecordError::Inner)?;
            let byte = plain.get(at).copied().unwrap_or(0);
            (ContentType::of(byte).ok_or(RecordError::Inner)?, at)
        } else {
            (outline.kind, plain.len())
        };
        if length > MAX_PAYLOAD {
            return Err(RecordError::Length);
        }
        self.count()?;
        Ok((kind, start..start + length))
    }

    /// Seals `payload` into the front of `out`, and returns the record's length.
    pub(crate) fn seal(
        &mut self,
        kind: ContentType,
        payload: &[u8],
        out: &mut [u8],
    ) -> Result<usize, RecordError> {
        if payload.len() > MAX_PAYLOAD {
            return Err(RecordError::Length);
        }
        let inner = usize::from(self.version == Version::Tls13);
        let explicit = if self.is_explicit() { EXPLICIT } else { 0 };
        let start = HEADER_LEN + explicit;
        let end = start + payload.len() + inner;
        let len = end + TAG;
        let out = out.get_mut(..len).ok_or(RecordError::Room)?;
        let outer = if inner == 1 { ContentType::Data } else { kind };
        let body = (len - HEADER_LEN) as u16;
        let [high, low] = body.to_be_bytes();
        let counter = self.sequence.to_be_bytes();
        let (front, rest) = out.split_at_mut(start);
        front[..HEADER_LEN].copy_from_slice(&[outer.byte(), 3, 3, high, low]);
        front[HEADER_LEN..].copy_from_slice(&counter[..explicit]);
        let (text, tag) = rest.split_at_mut(payload.len() + inner);
        text[..payload.len()].copy_from_slice(payload);
        if inner == 1 {
            text[payload.len()] = kind.byte();
        }
        let (covered, used) = self.covered(outer.byte(), body, payload.len() as u16);
        let aad = Aad::from(covered.get(..used).unwrap_or(&[]));
        let sealed = self
            .key
            .seal_in_place_separate_tag(self.nonce(counter), aad, text)
            .map_err(|_| RecordError::Sealed)?;
        tag.copy_from_slice(sealed.as_ref());
        self.count()?;
        Ok(len)
    }
}
