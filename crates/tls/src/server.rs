//! What all handshakes of a service have in common.
use std::path::PathBuf;
use std::sync::Arc;

use rustls::crypto::aws_lc_rs::default_provider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, CertificateRevocationListDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};

use crate::certificate::{Certificate, CertificateError, Certificates, Named};
use crate::secrets::Version;
use crate::tickets::TicketKey;

/// How a service terminates TLS.
#[derive(Debug)]
pub struct ServerSettings {
    /// Its certificates.
    pub certificates: Vec<Certificate>,
    /// The protocols by preference (RFC 7301), as `http/1.1`; without any a client's
    /// wishes are passed over.
    pub alpn: Vec<String>,
    /// The oldest version that HNLB accepts.
    pub oldest: Version,
    /// The key of session tickets.
    pub tickets: TicketKey,
    /// The authorities that clients' certificates are of, as PEM; `None`: clients are not
    /// asked for one.
    pub client_ca: Option<PathBuf>,
    /// The authorities' lists of revoked certificates, as PEM; `None`: none is asked about.
    pub client_crl: Option<PathBuf>,
    /// Whether clients must have a certificate.
    pub client_required: bool,
}

/// A service can't terminate TLS.
#[derive(Debug, thiserror::Error)]
pub enum ServerError {
    /// A certificate.
    #[error(transparent)]
    Certificate(#[from] CertificateError),
    /// The authorities of clients.
    #[error("{path}: no authority for clients' certificates: {reason}")]
    ClientCa {
        /// The file.
        path: PathBuf,
        /// Why.
        reason: String,
    },
    /// The lists of clients' revoked certificates.
    #[error("{path}: no list of revoked certificates in PEM: {reason}")]
    ClientCrl {
        /// The file.
        path: PathBuf,
        /// Why.
        reason: String,
    },
    /// rustls refuses.
    #[error("TLS can't be configured: {0}")]
    Tls(#[from] rustls::Error),
}

/// A service's side of all handshakes.
#[derive(Debug)]
pub struct Tls {
    config: Arc<ServerConfig>,
    certificates: Arc<Certificates>,
}

impl Tls {
    /// Reads certificates and authorities.
    ///
    /// # Errors
    /// [`ServerError`] names the file and what is wrong.
    pub fn new(settings: ServerSettings) -> Result<Self, ServerError> {
        let certificates = Arc::new(Certificates::load(&settings.certificates)?);
        let provider = Arc::new(default_provider());
        let versions: &[_] = match settings.oldest {
            Version::Tls12 => &[&rustls::version::TLS13, &rustls::version::TLS12],
            Version::Tls13 => &[&rustls::version::TLS13],
        };
        let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_protocol_versions(versions)?;
        let builder = match &settings.client_ca {
            None => builder.with_no_client_auth(),
            Some(path) => {
                let failed = |reason: String| ServerError::ClientCa { path: path.clone(), reason };
                let roots = Arc::new(roots(path).map_err(failed)?);
                let mut verifier = WebPkiClientVerifier::builder_with_provider(roots, provider);
                if let Some(path) = &settings.client_crl {
                    // Of authorities between there may be no list.
                    verifier = verifier
                        .with_crls(lists(path).map_err(|reason| ServerError::ClientCrl {
                            path: path.clone(),
                            reason,
                        })?)
                        .only_check_end_entity_revocation();
                }
                let verifier = if settings.client_required {
                    verifier
                } else {
                    verifier.allow_unauthenticated()
                };
                let verifier = verifier.build().map_err(|error| failed(error.to_string()))?;
                builder.with_client_cert_verifier(verifier)
            }
        };
        let mut config = builder.with_cert_resolver(Arc::clone(&certificates) as Arc<_>);
        config.alpn_protocols = settings.alpn.into_iter().map(String::into_bytes).collect();
        config.ticketer = settings.tickets.producer();
        // Two tickets, as browsers open several connections.
        config.send_tls13_tickets = 2;
        config.enable_secret_extraction = true;
        Ok(Self { config: Arc::new(config), certificates })
    }

    /// Reads the certificates again; after an error nothing has changed.
    ///
    /// # Errors
    /// [`CertificateError`].
    pub fn reload(&self, certificates: &[Certificate]) -> Result<(), CertificateError> {
        self.certificates.reload(certificates)
    }

    /// The side of one handshake, and the name that its client will have asked for.
    pub(crate) fn handshake(&self) -> (Arc<ServerConfig>, Arc<Named>) {
        let named = Arc::new(Named::of(Arc::clone(&self.certificates)));
        let mut config = ServerConfig::clone(&self.config);
        config.cert_resolver = Arc::clone(&named) as Arc<_>;
        (Arc::new(config), named)
    }
}

pub(crate) fn roots(path: &std::path::Path) -> Result<RootCertStore, String> {
    let text = std::fs::read(path).map_err(|error| error.to_string())?;
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(&text) {
        let certificate = certificate.map_err(|error| error.to_string())?;
        roots.add(certificate).map_err(|error| error.to_string())?;
    }
    if roots.is_empty() { Err("there is none".to_owned()) } else { Ok(roots) }
}

/// The lists of revoked certificates in a file.
fn lists(path: &std::path::Path) -> Result<Vec<CertificateRevocationListDer<'static>>, String> {
    let text = std::fs::read(path).map_err(|error| error.to_string())?;
    let all: Result<Vec<_>, _> = CertificateRevocationListDer::pem_slice_iter(&text).collect();
    let all = all.map_err(|error| error.to_string())?;
    if all.is_empty() { Err("there is none".to_owned()) } else { Ok(all) }
}
