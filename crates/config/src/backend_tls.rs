//! `[service.backend_tls]`: how a service speaks TLS with its backends.
use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How a service that terminates TLS speaks it with its backends, and which certificates it believes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct BackendTls {
    /// The CAs that have signed the backends' certificates, as PEM.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ca: Option<PathBuf>,
    /// The fingerprints of the certificates that backends may have, as `openssl x509 -noout -fingerprint -sha256` prints them behind the `=`: 64 hexadecimal digits, with or without colons. With `ca` both must hold.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pins: Vec<String>,
    /// The server name that HNLB sends to backends (SNI) and that their certificates must carry; by default a backend's address.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
}

/// A fingerprint as it is written.
pub(crate) fn fingerprint(text: &str) -> Option<tls::Fingerprint> {
    let digits: String = text.chars().filter(|own| *own != ':').collect();
    let bytes = digits.as_bytes();
    if bytes.len() != 64 || !bytes.iter().all(u8::is_ascii_hexdigit) {
        return None;
    }
    let mut all = [0; 32];
    for (byte, pair) in all.iter_mut().zip(bytes.chunks(2)) {
        *byte = u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()?;
    }
    Some(all)
}

impl BackendTls {
    /// A service's side of TLS towards its backends.
    ///
    /// # Errors
    /// A file, and what is wrong with it.
    pub fn client(&self) -> Result<tls::BackendTls, tls::BackendTlsError> {
        tls::BackendTls::new(&tls::BackendSettings {
            ca: self.ca.clone(),
            // What the checks have let pass is a fingerprint.
            pins: self.pins.iter().filter_map(|pin| fingerprint(pin)).collect(),
            name: self.name.clone(),
        })
    }
}
