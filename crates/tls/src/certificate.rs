//! Certificates and their private keys, by the name that a client asks for.
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use arc_swap::ArcSwap;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;

use crate::keys;

/// Where a certificate is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Certificate {
    /// The names it is for: `www.example.org`, or `*.example.org` for names of one more
    /// label. Without any it is given to clients that ask for no name or an unknown one.
    pub names: Vec<String>,
    /// The chain as PEM, the server's own certificate first.
    pub chain: PathBuf,
    /// The private key as PEM; readable by nobody but its owner.
    pub key: PathBuf,
    /// An OCSP response as DER to staple.
    pub ocsp: Option<PathBuf>,
}

/// A certificate can't be used.
#[derive(Debug, thiserror::Error)]
pub enum CertificateError {
    /// A file can't be read.
    #[error("{path}: {source}")]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// Others may read the key.
    #[error(
        "{path} has mode {mode:04o}: others than its owner may read the private key; \
         chmod 0600 {path}"
    )]
    Exposed {
        /// The file.
        path: PathBuf,
        /// Its permissions.
        mode: u32,
    },
    /// The file is no PEM of the kind.
    #[error("{path}: no {what} in PEM: {reason}")]
    Pem {
        /// The file.
        path: PathBuf,
        /// Certificate or private key.
        what: &'static str,
        /// Why.
        reason: String,
    },
    /// The key is of a kind that isn't known.
    #[error("{path}: the private key can't be used: {reason}")]
    Key {
        /// The file.
        path: PathBuf,
        /// Why.
        reason: String,
    },
    /// Key and certificate are not of each other.
    #[error("{key} is not the private key of {chain}: {source}")]
    Mismatch {
        /// The chain's file.
        chain: PathBuf,
        /// The key's file.
        key: PathBuf,
        /// What differs.
        source: rustls::Error,
    },
    /// The file is no key of session tickets.
    #[error(
        "{path} has {length} bytes and is no key of session tickets; write 32 bytes, or 64 \
         hexadecimal digits: openssl rand -hex 32"
    )]
    Tickets {
        /// The file.
        path: PathBuf,
        /// Its length.
        length: usize,
    },
    /// Two certificates have one name.
    #[error("two certificates are for '{0}'")]
    Twice(String),
    /// The name is none.
    #[error("'{0}' is no name of a server; write www.example.org or *.example.org")]
    Name(String),
    /// There is none.
    #[error("a service that terminates TLS needs a certificate")]
    None,
}

/// All certificates of a service, exchanged as a whole: handshakes that have begun go on
/// with what they have.
#[derive(Debug)]
pub struct Certificates(ArcSwap<ByName>);

/// The keys by name; without a name, for wildcards by what follows the asterisk.
#[derive(Debug, Default)]
struct ByName {
    exact: HashMap<String, Arc<CertifiedKey>>,
    wildcard: HashMap<String, Arc<CertifiedKey>>,
    default: Option<Arc<CertifiedKey>>,
}

impl Certificates {
    /// Reads all files.
    ///
    /// # Errors
    /// [`CertificateError`] names the file and what is wrong.
    pub fn load(certificates: &[Certificate]) -> Result<Self, CertificateError> {
        Ok(Self(ArcSwap::from_pointee(ByName::load(certificates)?)))
    }

    /// Reads all files again; after an error nothing has changed.
    ///
    /// # Errors
    /// As [`Certificates::load`].
    pub fn reload(&self, certificates: &[Certificate]) -> Result<(), CertificateError> {
        self.0.store(Arc::new(ByName::load(certificates)?));
        Ok(())
    }

    fn find(&self, name: Option<&str>) -> Option<Arc<CertifiedKey>> {
        let all = self.0.load();
        let named = name.and_then(|name| {
            let name = name.to_ascii_lowercase();
            let parent = name.split_once('.').map(|(_, parent)| parent);
            let exact = all.exact.get(&name);
            exact.or_else(|| all.wildcard.get(parent?)).map(Arc::clone)
        });
        named.or_else(|| all.default.clone())
    }
}

impl ResolvesServerCert for Certificates {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        self.find(hello.server_name())
    }
}

/// The certificates for one handshake, which keep the name that its client asks for:
/// rustls tells it nobody else in a connection without buffers.
#[derive(Debug)]
pub(crate) struct Named {
    certificates: Arc<Certificates>,
    name: OnceLock<String>,
}

impl Named {
    pub(crate) const fn of(certificates: Arc<Certificates>) -> Self {
        Self { certificates, name: OnceLock::new() }
    }

    /// The name in lower case, if the client has named one.
    pub(crate) fn name(&self) -> Option<&str> {
        self.name.get().map(String::as_str)
    }
}

impl ResolvesServerCert for Named {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        if let Some(name) = hello.server_name() {
            // After a HelloRetryRequest the second hello has the name of the first.
            let _ = self.name.set(name.to_ascii_lowercase());
        }
        self.certificates.resolve(hello)
    }
}

impl ByName {
    fn load(certificates: &[Certificate]) -> Result<Self, CertificateError> {
        let mut all = Self::default();
        for certificate in certificates {
            let key = Arc::new(certificate.load()?);
            if certificate.names.is_empty() && all.default.replace(Arc::clone(&key)).is_some() {
                return Err(CertificateError::Twice("any other name".to_owned()));
            }
            for name in &certificate.names {
                let text = name.to_ascii_lowercase();
                let (map, text) = match text.strip_prefix("*.") {
                    Some(parent) => (&mut all.wildcard, parent),
                    None => (&mut all.exact, text.as_str()),
                };
                if !is_name(text) {
                    return Err(CertificateError::Name(name.clone()));
                }
                if map.insert(text.to_owned(), Arc::clone(&key)).is_some() {
                    return Err(CertificateError::Twice(name.clone()));
                }
            }
        }
        if certificates.is_empty() { Err(CertificateError::None) } else { Ok(all) }
    }
}

fn is_name(text: &str) -> bool {
    let label = |label: &str| {
        (1..=63).contains(&label.len())
            && label.chars().all(|c| c.is_ascii_alphanumeric() || c == '-' || c == '_')
    };
    text.len() <= 253 && text.split('.').all(label)
}

impl Certificate {
    fn load(&self) -> Result<CertifiedKey, CertificateError> {
        let read = |path: &Path| {
            std::fs::read(path)
                .map_err(|source| CertificateError::Read { path: path.to_owned(), source })
        };
        let pem = |path: &Path, what, error: &dyn std::fmt::Display| CertificateError::Pem {
            path: path.to_owned(),
            what,
            reason: error.to_string(),
        };
        let text = read(&self.chain)?;
        let chain: Vec<CertificateDer<'static>> = CertificateDer::pem_slice_iter(&text)
            .collect::<Result<_, _>>()
            .map_err(|error| pem(&self.chain, "certificate", &error))?;
        if chain.is_empty() {
            return Err(pem(&self.chain, "certificate", &"there is none"));
        }
        let mut certified = CertifiedKey::new(chain, keys::load(&self.key)?);
        certified.keys_match().map_err(|source| CertificateError::Mismatch {
            chain: self.chain.clone(),
            key: self.key.clone(),
            source,
        })?;
        certified.ocsp = self.ocsp.as_deref().map(read).transpose()?;
        Ok(certified)
    }
}
