//! What one part hands to the other: the secrets of a connection, and nothing else.
use rustls::kernel::KernelConnection;
use rustls::server::ServerConnectionData;
use rustls::{ConnectionTrafficSecrets, ExtractedSecrets, ProtocolVersion};
use zeroize::{Zeroize, ZeroizeOnDrop};

/// The protocol's version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Version {
    /// RFC 5246, with AEAD suites only.
    Tls12,
    /// RFC 8446.
    Tls13,
}

impl Version {
    /// Its usual name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Tls12 => "TLSv1.2",
            Self::Tls13 => "TLSv1.3",
        }
    }
}

/// The AEAD of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Suite {
    /// AES-128-GCM.
    Aes128Gcm,
    /// AES-256-GCM.
    Aes256Gcm,
    /// ChaCha20-Poly1305.
    ChaCha20Poly1305,
}

impl Suite {
    /// Records after which a key must not be used any more. For AES-GCM an eighth of the
    /// 2^24.5 full records of RFC 8446 section 5.5, so that a peer that is slow to answer
    /// stays within.
    #[must_use]
    pub const fn most_records(self) -> u64 {
        match self {
            Self::Aes128Gcm | Self::Aes256Gcm => 1 << 21,
            Self::ChaCha20Poly1305 => u64::MAX,
        }
    }
}

/// The key of one direction; its memory is cleared when it is dropped.
#[derive(Clone, PartialEq, Eq, Zeroize, ZeroizeOnDrop)]
pub struct TrafficKey {
    #[zeroize(skip)]
    pub(crate) suite: Suite,
    pub(crate) key: [u8; 32],
    pub(crate) iv: [u8; 12],
    /// The number of the next record.
    pub(crate) sequence: u64,
}

impl std::fmt::Debug for TrafficKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "TrafficKey({:?}, {})", self.suite, self.sequence)
    }
}

impl TrafficKey {
    fn new(sequence: u64, secrets: &ConnectionTrafficSecrets) -> Option<Self> {
        let (suite, key, iv) = match secrets {
            ConnectionTrafficSecrets::Aes128Gcm { key, iv } => (Suite::Aes128Gcm, key, iv),
            ConnectionTrafficSecrets::Aes256Gcm { key, iv } => (Suite::Aes256Gcm, key, iv),
            ConnectionTrafficSecrets::Chacha20Poly1305 { key, iv } => {
                (Suite::ChaCha20Poly1305, key, iv)
            }
            _ => return None,
        };
        let mut bytes = [0; 32];
        bytes.get_mut(..key.as_ref().len())?.copy_from_slice(key.as_ref());
        Some(Self { suite, key: bytes, iv: iv.as_ref().try_into().ok()?, sequence })
    }

    /// The key's own bytes.
    pub(crate) fn bytes(&self) -> &[u8] {
        let used = if self.suite == Suite::Aes128Gcm { 16 } else { 32 };
        self.key.get(..used).unwrap_or(&[])
    }
}

/// Both keys of a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Secrets {
    /// The version.
    pub version: Version,
    /// For records to the client.
    pub transmit: TrafficKey,
    /// For records from the client.
    pub receive: TrafficKey,
}

/// What makes the next keys of a connection (RFC 8446 section 7.2). It stays with the
/// handshakes: a key update is rare, and its secret is not the worker's business.
pub struct Successor(KernelConnection<ServerConnectionData>);

impl std::fmt::Debug for Successor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Successor")
    }
}

impl Successor {
    /// The next key for records to the client; `None` for TLS 1.2, which has none.
    pub fn next_transmit(&mut self) -> Option<TrafficKey> {
        let (sequence, secrets) = self.0.update_tx_secret().ok()?;
        TrafficKey::new(sequence, &secrets)
    }

    /// The next key for records from the client; `None` for TLS 1.2.
    pub fn next_receive(&mut self) -> Option<TrafficKey> {
        let (sequence, secrets) = self.0.update_rx_secret().ok()?;
        TrafficKey::new(sequence, &secrets)
    }
}

/// Takes a connection apart; `None` for a version or suite that isn't known.
pub(crate) fn apart(
    secrets: &ExtractedSecrets,
    kernel: KernelConnection<ServerConnectionData>,
) -> Option<(Secrets, Successor)> {
    let version = match kernel.protocol_version() {
        ProtocolVersion::TLSv1_2 => Version::Tls12,
        ProtocolVersion::TLSv1_3 => Version::Tls13,
        _ => return None,
    };
    let transmit = TrafficKey::new(secrets.tx.0, &secrets.tx.1)?;
    let receive = TrafficKey::new(secrets.rx.0, &secrets.rx.1)?;
    Some((Secrets { version, transmit, receive }, Successor(kernel)))
}
