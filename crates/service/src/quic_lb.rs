//! QUIC connection ids that name the server (draft-ietf-quic-load-balancers-21), so
//! that a client whose address or port changes stays with its backend.
//!
//! A server writes its server id into the connection ids that it gives out, in the
//! clear or encrypted with AES-128-ECB. A packet of a 5-tuple that no connection has
//! is decoded; if that gives no backend, the 5-tuple decides, as for all others.
use std::fmt;
use std::str::FromStr;

use aes::Aes128;
use aes::cipher::{BlockDecrypt, BlockEncrypt, KeyInit};
use flow::BackendId;

use crate::hex::{BadHex, Key128, hex};

/// Bytes of a server id at most: 19 less the shortest nonce.
const LONGEST_ID: usize = 15;

/// QUIC versions 1 (RFC 9000) and 2 (RFC 9369).
const V1: u32 = 1;
const V2: u32 = 0x6b33_43cf;

/// What names a server in connection ids: 1 to 15 bytes, written as hexadecimal
/// digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ServerId {
    length: u8,
    bytes: [u8; LONGEST_ID],
}

impl ServerId {
    /// The id with these bytes; `None` if there are none or too many.
    #[must_use]
    pub fn new(id: &[u8]) -> Option<Self> {
        let mut bytes = [0; LONGEST_ID];
        bytes.get_mut(..id.len()).filter(|_| !id.is_empty())?.copy_from_slice(id);
        Some(Self { length: id.len() as u8, bytes })
    }

    /// Its length in bytes.
    #[must_use]
    #[allow(clippy::len_without_is_empty, reason = "it is never empty")]
    pub const fn len(&self) -> usize {
        self.length as usize
    }
}

impl FromStr for ServerId {
    type Err = BadHex;

    fn from_str(text: &str) -> Result<Self, BadHex> {
        let bad = || {
            BadHex(format!(
                "'{text}' is not a server id; write 1 to 15 bytes in hexadecimal, as ed793a"
            ))
        };
        Self::new(&hex(text).ok_or_else(bad)?).ok_or_else(bad)
    }
}

impl fmt::Display for ServerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.bytes.iter().take(self.len()).try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// How servers make connection ids: one configuration of the draft.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QuicIds {
    /// The first 3 bits of the connection id, 0 to 6, so that servers can change
    /// from one configuration to another.
    pub rotation: u8,
    /// Bytes of the server id, 1 to 15.
    pub server_id_length: u8,
    /// Bytes of the nonce behind it, 4 to 18; both are 19 at most.
    pub nonce_length: u8,
    /// What both are encrypted with; `None`: they are in the clear.
    pub key: Option<Key128>,
}

/// Reads server ids from connection ids of one configuration.
#[derive(Clone, Debug)]
pub struct QuicDecoder {
    rotation: u8,
    id: usize,
    nonce: usize,
    cipher: Option<Aes128>,
}

impl From<&QuicIds> for QuicDecoder {
    fn from(ids: &QuicIds) -> Self {
        let &QuicIds { rotation, server_id_length, nonce_length, key } = ids;
        let cipher = key.map(|key| Aes128::new(&key.0.into()));
        Self { rotation, id: server_id_length.into(), nonce: nonce_length.into(), cipher }
    }
}

impl QuicDecoder {
    /// The server id in `connection_id`, which may be followed by other bytes.
    /// `None` if it is too short.
    #[must_use]
    pub fn server_id(&self, connection_id: &[u8]) -> Option<ServerId> {
        let text = connection_id.get(1..=self.id + self.nonce)?;
        let Some(cipher) = &self.cipher else { return ServerId::new(text.get(..self.id)?) };
        let plain = match <[u8; 16]>::try_from(text) {
            Ok(block) => {
                let mut block = block.into();
                cipher.decrypt_block(&mut block);
                let mut plain = [0; 20];
                plain.get_mut(..16)?.copy_from_slice(&block);
                plain
            }
            Err(_) => self.four_pass(cipher, text)?,
        };
        ServerId::new(plain.get(..self.id)?)
    }

    /// Undoes a Feistel network of four rounds (section 5.4.2 of the draft). With
    /// an odd number of bytes the halves share the middle one, four bits each.
    fn four_pass(&self, cipher: &Aes128, text: &[u8]) -> Option<[u8; 20]> {
        let half = text.len().div_ceil(2);
        let odd = text.len() % 2 == 1;
        let (mut left, mut right) = ([0; 10], [0; 10]);
        left.get_mut(..half)?.copy_from_slice(text.get(..half)?);
        right.get_mut(..half)?.copy_from_slice(text.get(text.len() - half..)?);
        let clear = |left: &mut [u8; 10], right: &mut [u8; 10]| {
            if let (true, Some(last)) = (odd, left.get_mut(half - 1)) {
                *last &= 0xf0;
                right[0] &= 0x0f;
            }
        };
        clear(&mut left, &mut right);
        let round = |into: &mut [u8; 10], from: &[u8; 10], pass: u8| {
            let mut block = [0; 16];
            block[..10].copy_from_slice(from);
            (block[14], block[15]) = (text.len() as u8, pass);
            let mut block = block.into();
            cipher.encrypt_block(&mut block);
            into.iter_mut().take(half).zip(&block).for_each(|(byte, mask)| *byte ^= mask);
        };
        for pass in [4, 3, 2, 1] {
            // The right half is wanted only if the server id reaches into it.
            match pass {
                4 | 2 => round(&mut left, &right, pass),
                1 if self.id <= self.nonce => break,
                _ => round(&mut right, &left, pass),
            }
            clear(&mut left, &mut right);
        }
        let mut plain = [0; 20];
        plain.get_mut(..half)?.copy_from_slice(left.get(..half)?);
        let behind = plain.iter_mut().skip(text.len() - half).zip(right.iter().take(half));
        behind.for_each(|(byte, bits)| *byte |= bits);
        Some(plain)
    }
}

/// The destination connection id in a QUIC packet from a client, with what follows
/// it; `None` if a client chose it (Initial and 0-RTT), or the version is not known.
///
/// Only the first bit of the first byte counts in packets with a short header: all
/// others depend on the version or may be set at will (RFC 8999, RFC 9287).
fn connection_id(packet: &[u8]) -> Option<&[u8]> {
    let (&first, rest) = packet.split_first()?;
    if first & 0x80 == 0 {
        return Some(rest);
    }
    let (version, rest) = rest.split_first_chunk()?;
    let handshake = match u32::from_be_bytes(*version) {
        V1 => 2,
        V2 => 0,
        _ => return None,
    };
    let (&length, rest) = rest.split_first()?;
    (first >> 4 & 3 == handshake).then(|| rest.get(..length.into()))?
}

/// Which backend a connection id of a service names.
#[derive(Clone, Debug)]
pub(crate) struct QuicAffinity {
    decoders: Box<[QuicDecoder]>,
    /// By server id.
    backends: Box<[(ServerId, BackendId)]>,
}

impl QuicAffinity {
    pub(crate) fn new(ids: &[QuicIds], backends: Vec<(ServerId, BackendId)>) -> Self {
        let mut backends = backends;
        backends.sort_unstable();
        Self { decoders: ids.iter().map(QuicDecoder::from).collect(), backends: backends.into() }
    }

    /// The backend that the connection id in `packet`, a UDP payload, names.
    pub(crate) fn backend(&self, packet: &[u8]) -> Option<BackendId> {
        let id = connection_id(packet)?;
        // 7 stands for ids that name no server; no configuration has it.
        let rotation = id.first()? >> 5;
        let server = self.decoders.iter().find(|own| own.rotation == rotation)?.server_id(id)?;
        let found = self.backends.binary_search_by_key(&server, |(own, _)| *own).ok()?;
        self.backends.get(found).map(|(_, backend)| *backend)
    }
}
