//! Where private keys are: in this process, or in one that does nothing but sign with
//! them, so that no other memory has them.
//!
//! ```text
//! handshakes ── Remote ═══ socket ═══ serve ── keys
//!               (names, public keys)   (a process of its own)
//! ```
pub(crate) mod frame;
mod remote;
mod server;

use std::fs::File;
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::{Arc, OnceLock};

use rustls::crypto::aws_lc_rs::sign::any_supported_type;
use rustls::pki_types::PrivateKeyDer;
use rustls::pki_types::pem::PemObject;
use rustls::sign::SigningKey;
use zeroize::{Zeroize, Zeroizing};

use crate::certificate::CertificateError;
use remote::Keys;

pub use server::serve;

/// The process that has the keys, if there is one.
static KEYS: OnceLock<Arc<Keys>> = OnceLock::new();

/// Keeps all private keys that are read from now on in another process, to which `start`
/// makes a connection, at whose other end [`serve`] runs. `start` is called when the first key is read, and again if the process has ended. The
/// first call of this function decides.
pub fn keep_in(start: impl Fn() -> std::io::Result<UnixStream> + Send + Sync + 'static) {
    let _ = KEYS.set(Arc::new(Keys::new(Box::new(start))));
}

/// Why a file is no key.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum LoadError {
    /// It can't be read.
    #[error("{0}")]
    Read(String),
    /// It is no PEM with a private key.
    #[error("no private key in PEM: {0}")]
    Pem(String),
    /// The key is of a kind that isn't known.
    #[error("the private key can't be used: {0}")]
    Key(String),
}

/// Opens a file that nobody but its owner may read.
pub(crate) fn open(path: &Path) -> Result<File, CertificateError> {
    let read = |source| CertificateError::Read { path: path.to_owned(), source };
    let file = File::open(path).map_err(read)?;
    let mode = file.metadata().map_err(read)?.permissions().mode() & 0o7777;
    if mode & 0o077 != 0 {
        return Err(CertificateError::Exposed { path: path.to_owned(), mode });
    }
    Ok(file)
}

/// Reads a private key, wherever keys are kept.
pub(crate) fn load(path: &Path) -> Result<Arc<dyn SigningKey>, CertificateError> {
    let file = open(path)?;
    let loaded = match KEYS.get() {
        None => read(file),
        Some(keys) => remote::load(keys, path),
    };
    loaded.map_err(|error| {
        let path = path.to_owned();
        match error {
            LoadError::Read(reason) => {
                CertificateError::Read { path, source: std::io::Error::other(reason) }
            }
            LoadError::Pem(reason) => CertificateError::Pem { path, what: "private key", reason },
            LoadError::Key(reason) => CertificateError::Key { path, reason },
        }
    })
}

/// The longest file that is read; the longest RSA keys have some 13,000 bytes.
const LONGEST: u64 = 64 * 1024;

/// Reads a private key into this process, and clears what it was made of.
fn read(file: File) -> Result<Arc<dyn SigningKey>, LoadError> {
    // With all its room from the beginning nothing is copied when it grows.
    let mut text = Zeroizing::new(Vec::with_capacity(LONGEST as usize));
    let length = file.take(LONGEST).read_to_end(&mut text);
    length.map_err(|error| LoadError::Read(error.to_string()))?;
    let mut der =
        PrivateKeyDer::from_pem_slice(&text).map_err(|error| LoadError::Pem(error.to_string()))?;
    let key = any_supported_type(&der).map_err(|error| LoadError::Key(error.to_string()));
    der.zeroize();
    key
}
