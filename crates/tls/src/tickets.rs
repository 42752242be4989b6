//! Session tickets whose keys follow from one configured key and the time, so that load
//! balancers with the same configuration resume each other's sessions (RFC 8446 section
//! 4.6.1, RFC 5077).
use std::io::Read as _;
use std::path::Path;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use aws_lc_rs::aead::{AES_256_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use aws_lc_rs::hkdf::{HKDF_SHA256, KeyType, Salt};
use aws_lc_rs::rand::{SecureRandom, SystemRandom};
use rustls::server::ProducesTickets;
use zeroize::Zeroizing;

use crate::certificate::CertificateError;
use crate::keys;

/// Seconds for which tickets are made with one key. A ticket is accepted in the period
/// after its own, too.
const PERIOD_S: u64 = 6 * 3600;
/// The longest file that is read.
const LONGEST: u64 = 4096;
/// Bytes before the sealed state: the period and the nonce.
const FRONT: usize = 4 + 12;

/// The configured key.
#[derive(Clone)]
pub struct TicketKey(Zeroizing<[u8; 32]>);

impl std::fmt::Debug for TicketKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("TicketKey")
    }
}

/// A length for HKDF.
struct Bytes32;

impl KeyType for Bytes32 {
    fn len(&self) -> usize {
        32
    }
}

impl TicketKey {
    /// A key that load balancers share.
    #[must_use]
    pub fn new(key: [u8; 32]) -> Self {
        Self(Zeroizing::new(key))
    }

    /// Reads a key: 32 bytes, or 64 hexadecimal digits.
    ///
    /// # Errors
    /// [`CertificateError`] names the file and what is wrong.
    pub fn read(path: &Path) -> Result<Self, CertificateError> {
        let read = |source| CertificateError::Read { path: path.to_owned(), source };
        // With all its room from the beginning nothing is copied when it grows.
        let mut text = Zeroizing::new(Vec::with_capacity(LONGEST as usize));
        keys::open(path)?.take(LONGEST).read_to_end(&mut text).map_err(read)?;
        let wrong = || CertificateError::Tickets { path: path.to_owned(), length: text.len() };
        if let Ok(key) = <[u8; 32]>::try_from(text.as_slice()) {
            return Ok(Self::new(key));
        }
        let digits = text.trim_ascii();
        let mut key = Zeroizing::new([0; 32]);
        if digits.len() != 64 {
            return Err(wrong());
        }
        for (byte, pair) in key.iter_mut().zip(digits.chunks(2)) {
            let pair = std::str::from_utf8(pair).map_err(|_| wrong())?;
            *byte = u8::from_str_radix(pair, 16).map_err(|_| wrong())?;
        }
        Ok(Self(key))
    }

    /// A key by chance, for one load balancer alone; `None`: the system gives none.
    #[must_use]
    pub fn random() -> Option<Self> {
        let mut key = Zeroizing::new([0; 32]);
        SystemRandom::new().fill(key.as_mut_slice()).ok()?;
        Some(Self(key))
    }

    /// The key of a period.
    fn of(&self, period: u32) -> Option<LessSafeKey> {
        let mut bytes = Zeroizing::new([0; 32]);
        let secret = Salt::new(HKDF_SHA256, b"hnlb tickets").extract(self.0.as_slice());
        secret.expand(&[&period.to_be_bytes()], Bytes32).ok()?.fill(bytes.as_mut_slice()).ok()?;
        UnboundKey::new(&AES_256_GCM, bytes.as_slice()).ok().map(LessSafeKey::new)
    }

    fn seal(&self, plain: &[u8], period: u32) -> Option<Vec<u8>> {
        let mut nonce = [0; 12];
        SystemRandom::new().fill(&mut nonce).ok()?;
        let mut sealed = plain.to_vec();
        self.of(period)?
            .seal_in_place_append_tag(
                Nonce::assume_unique_for_key(nonce),
                Aad::from(period.to_be_bytes()),
                &mut sealed,
            )
            .ok()?;
        Some([&period.to_be_bytes()[..], &nonce, &sealed].concat())
    }

    fn open(&self, ticket: &[u8], now: u32) -> Option<Vec<u8>> {
        let (front, sealed) = ticket.split_at_checked(FRONT)?;
        let (period, nonce) = front.split_at_checked(4)?;
        let period = u32::from_be_bytes(period.try_into().ok()?);
        if period != now && period.checked_add(1) != Some(now) {
            return None;
        }
        let nonce = Nonce::try_assume_unique_for_key(nonce).ok()?;
        let mut sealed = sealed.to_vec();
        let plain = self
            .of(period)?
            .open_in_place(nonce, Aad::from(period.to_be_bytes()), &mut sealed)
            .ok()?;
        Some(plain.to_vec())
    }

    /// As rustls wants it.
    pub(crate) fn producer(self) -> Arc<dyn ProducesTickets> {
        Arc::new(Producer(self))
    }
}

fn period() -> u32 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.map_or(0, |now| (now.as_secs() / PERIOD_S) as u32)
}

#[derive(Debug)]
struct Producer(TicketKey);

impl ProducesTickets for Producer {
    fn enabled(&self) -> bool {
        true
    }

    fn lifetime(&self) -> u32 {
        PERIOD_S as u32
    }

    fn encrypt(&self, plain: &[u8]) -> Option<Vec<u8>> {
        self.0.seal(plain, period())
    }

    fn decrypt(&self, cipher: &[u8]) -> Option<Vec<u8>> {
        self.0.open(cipher, period())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_ticket_is_good_with_the_same_key_for_two_periods() {
        let (one, same, other) =
            (TicketKey::new([1; 32]), TicketKey::new([1; 32]), TicketKey::new([2; 32]));
        let ticket = one.seal(b"state", 7).unwrap();
        assert_eq!(same.open(&ticket, 7).unwrap(), b"state");
        assert_eq!(same.open(&ticket, 8).unwrap(), b"state");
        assert_eq!(same.open(&ticket, 9), None, "too old");
        assert_eq!(same.open(&ticket, 6), None, "from the future");
        assert_eq!(other.open(&ticket, 7), None);
        assert_ne!(one.seal(b"state", 7).unwrap(), ticket, "another nonce each time");
    }

    proptest! {
        #[test]
        fn a_changed_ticket_is_none(at in any::<prop::sample::Index>(), bit in 0..8_u8) {
            let key = TicketKey::new([1; 32]);
            let mut ticket = key.seal(b"some state", 7).unwrap();
            let at = at.index(ticket.len());
            ticket[at] ^= 1 << bit;
            prop_assert_eq!(key.open(&ticket, 7), None);
        }

        #[test]
        fn garbage_is_none(garbage in prop::collection::vec(any::<u8>(), 0..100)) {
            prop_assert_eq!(TicketKey::new([1; 32]).open(&garbage, 7), None);
        }
    }
}
