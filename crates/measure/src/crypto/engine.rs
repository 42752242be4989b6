//! What seals records: rustls as it is used everywhere, its provider's AEAD in
//! the worker's own code, and DPDK's crypto devices.
use aws_lc_rs::aead::{
    AES_128_GCM, AES_256_GCM, Aad, Algorithm, CHACHA20_POLY1305, LessSafeKey, Nonce, UnboundKey,
};
use dpdk::crypto::{self, CryptoDevice, Operation, RECORD_HEADER, RECORD_TAG, Session};
use dpdk::{Batch, Mempool};
use packet::PacketBuf;
use rustls::ServerConnection;
use std::io::Write as _;

use super::certificate::{Ends, KeyExchange, Signature};
use super::handshake::connect;
use super::options::CryptoBenchError;

/// Records of a burst.
pub(super) const BURST: usize = 32;

/// DPDK's drivers that need no card.
pub(super) const DRIVERS: [&str; 2] = ["crypto_openssl", "crypto_aesni_mb"];

/// An AEAD of TLS 1.3.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cipher {
    Aes128Gcm,
    Aes256Gcm,
    ChaCha20Poly1305,
}

impl Cipher {
    pub(super) const ALL: [Self; 3] = [Self::Aes128Gcm, Self::Aes256Gcm, Self::ChaCha20Poly1305];

    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Aes128Gcm => "AES-128-GCM",
            Self::Aes256Gcm => "AES-256-GCM",
            Self::ChaCha20Poly1305 => "ChaCha20-Poly1305",
        }
    }

    const fn key_len(self) -> usize {
        if matches!(self, Self::Aes128Gcm) { 16 } else { 32 }
    }

    fn inline(self) -> &'static Algorithm {
        match self {
            Self::Aes128Gcm => &AES_128_GCM,
            Self::Aes256Gcm => &AES_256_GCM,
            Self::ChaCha20Poly1305 => &CHACHA20_POLY1305,
        }
    }

    const fn device(self) -> crypto::Aead {
        match self {
            Self::ChaCha20Poly1305 => crypto::Aead::ChaCha20Poly1305,
            _ => crypto::Aead::AesGcm,
        }
    }
}

/// Seals bursts of records.
pub(super) trait Engine {
    /// As in the rows.
    fn name(&self) -> &'static str;

    /// Seals [`BURST`] records of `bytes` bytes of text each. The cycles that this
    /// took, without what the measurement itself adds.
    fn burst(&mut self, bytes: usize) -> Result<u64, CryptoBenchError>;
}

/// A key of the worker's own: the record's number goes into the nonce.
pub(super) struct Inline {
    key: LessSafeKey,
    sequence: u64,
    text: Vec<u8>,
}

impl Inline {
    pub(super) fn new(cipher: Cipher, seed: u8) -> Result<Self, CryptoBenchError> {
        let key: Vec<u8> = (0..cipher.key_len()).map(|at| at as u8 ^ seed).collect();
        let key = UnboundKey::new(cipher.inline(), &key).map_err(|_| CryptoBenchError::Inline)?;
        Ok(Self { key: LessSafeKey::new(key), sequence: 0, text: vec![0; 16384 + 1] })
    }

    /// Seals one record in place.
    pub(super) fn seal(&mut self, bytes: usize) -> Result<(), CryptoBenchError> {
        // The text and its content type (RFC 8446, 5.2).
        let text = self.text.get_mut(..=bytes).ok_or(CryptoBenchError::Room(bytes))?;
        let nonce = Nonce::assume_unique_for_key(nonce(self.sequence));
        let aad = Aad::from(header(bytes));
        let tag = self.key.seal_in_place_separate_tag(nonce, aad, text);
        let _ = std::hint::black_box(tag.map_err(|_| CryptoBenchError::Inline)?);
        self.sequence += 1;
        Ok(())
    }
}

impl Engine for Inline {
    fn name(&self) -> &'static str {
        "aws-lc-rs"
    }

    fn burst(&mut self, bytes: usize) -> Result<u64, CryptoBenchError> {
        let begin = dpdk::cycles();
        for _ in 0..BURST {
            self.seal(bytes)?;
        }
        Ok(dpdk::cycles() - begin)
    }
}

/// An established connection of rustls, with AES-128-GCM.
pub(super) struct Rustls {
    connection: ServerConnection,
    text: Vec<u8>,
    wire: Vec<u8>,
}

impl Rustls {
    pub(super) fn new() -> Result<Self, CryptoBenchError> {
        let ends = Ends::new(Signature::EcdsaP256, KeyExchange::X25519)?;
        let (mut connection, _) = connect(&ends, false)?;
        connection.set_buffer_limit(None);
        let text = vec![0; 16384];
        Ok(Self { connection, text, wire: Vec::with_capacity(BURST * (16384 + 64)) })
    }
}

impl Engine for Rustls {
    fn name(&self) -> &'static str {
        "rustls"
    }

    fn burst(&mut self, bytes: usize) -> Result<u64, CryptoBenchError> {
        let text = self.text.get(..bytes).ok_or(CryptoBenchError::Room(bytes))?;
        self.wire.clear();
        let begin = dpdk::cycles();
        for _ in 0..BURST {
            self.connection.writer().write_all(text)?;
            while self.connection.wants_write() {
                self.connection.write_tls(&mut self.wire)?;
            }
        }
        Ok(dpdk::cycles() - begin)
    }
}

/// A crypto device with one key.
pub(super) struct Device {
    name: &'static str,
    session: Session,
    device: CryptoDevice,
    pool: Mempool,
    records: Batch<BURST>,
    sequence: u64,
}

impl Device {
    /// `Ok(None)`: the driver is not there, or has no such cipher.
    pub(super) fn new(
        driver: &'static str,
        cipher: Cipher,
        pool: &Mempool,
    ) -> Result<Option<Self>, CryptoBenchError> {
        let Ok(device) = CryptoDevice::start(driver) else { return Ok(None) };
        let key: Vec<u8> = (0..cipher.key_len()).map(|at| at as u8).collect();
        let session = match device.session(cipher.device(), Operation::Seal, &key) {
            Ok(session) => session,
            Err(crypto::CryptoError::Session { .. }) => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        let (pool, records) = (pool.clone(), Batch::new());
        Ok(Some(Self { name: driver, session, device, pool, records, sequence: 0 }))
    }

    /// Burst of records of so many bytes.
    fn fill(&mut self, bytes: usize) -> Result<(), CryptoBenchError> {
        let whole = RECORD_HEADER + bytes + 1 + RECORD_TAG;
        if self.records.len() == BURST && self.records.iter().all(|record| record.len() == whole) {
            return Ok(());
        }
        self.records.clear();
        let room = || CryptoBenchError::Room(bytes);
        if self.pool.alloc_burst(&mut self.records, BURST) < BURST {
            return Err(room());
        }
        self.records
            .iter_mut()
            .try_for_each(|record| record.resize(whole).then_some(()).ok_or_else(room))
    }
}

impl Engine for Device {
    fn name(&self) -> &'static str {
        self.name
    }

    fn burst(&mut self, bytes: usize) -> Result<u64, CryptoBenchError> {
        self.fill(bytes)?;
        let begin = dpdk::cycles();
        let mut nonces = [crypto::Nonce::default(); BURST];
        for (at, (record, slot)) in (0..).zip(self.records.iter_mut().zip(&mut nonces)) {
            if let Some(bytes_of) = record.bytes_mut().first_chunk_mut() {
                *bytes_of = header(bytes);
            }
            *slot = nonce(self.sequence + at);
        }
        self.sequence += BURST as u64;
        self.device.process(&self.session, &mut self.records, &nonces)?;
        Ok(dpdk::cycles() - begin)
    }
}

/// The header of a record with so many bytes of text (RFC 8446, 5.1).
fn header(bytes: usize) -> [u8; RECORD_HEADER] {
    let [high, low] = ((bytes + 1 + RECORD_TAG) as u16).to_be_bytes();
    [23, 3, 3, high, low]
}

/// The sequence number at its place in the nonce, the key's own part being 0.
fn nonce(sequence: u64) -> crypto::Nonce {
    let mut nonce = crypto::Nonce::default();
    if let Some(end) = nonce.last_chunk_mut() {
        *end = sequence.to_be_bytes();
    }
    nonce
}
