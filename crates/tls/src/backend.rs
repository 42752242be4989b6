//! TLS towards backends: the side of the client, which believes an authority or a pin.
use std::io::{Read, Write};
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;

use aws_lc_rs::digest::{SHA256, digest};
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::aws_lc_rs::default_provider;
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{
    CertificateError, ClientConfig, ClientConnection, DigitallySignedStruct, Error, SignatureScheme,
};

use crate::server::roots;

/// The SHA-256 of a certificate as DER: its fingerprint.
pub type Fingerprint = [u8; 32];

/// What is believed of a service's backends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BackendSettings {
    /// The authorities that have signed their certificates, as PEM.
    pub ca: Option<PathBuf>,
    /// The certificates that they may have, whoever has signed them. With `ca` both must
    /// hold.
    pub pins: Vec<Fingerprint>,
    /// The name that they are asked for, and that `ca` must have signed; `None`: their
    /// address.
    pub name: Option<String>,
}

/// TLS towards a service's backends can't be configured.
#[derive(Debug, thiserror::Error)]
pub enum BackendTlsError {
    /// Nothing says which backends are believed.
    #[error("nothing says which certificates of backends are right; give ca or pins")]
    Nothing,
    /// The authorities.
    #[error("{path}: no authority for backends' certificates: {reason}")]
    Ca {
        /// The file.
        path: PathBuf,
        /// Why.
        reason: String,
    },
    /// The name is none.
    #[error("'{0}' is no name of a server; write backends.example.org")]
    Name(String),
    /// rustls refuses.
    #[error("TLS can't be configured: {0}")]
    Tls(#[from] Error),
}

/// A service's side of all connections to its backends. Their sessions are resumed.
#[derive(Debug)]
pub struct BackendTls {
    config: Arc<ClientConfig>,
    name: Option<ServerName<'static>>,
}

impl BackendTls {
    /// Reads the authorities.
    ///
    /// # Errors
    /// [`BackendTlsError`] says what is missing or wrong.
    pub fn new(settings: &BackendSettings) -> Result<Self, BackendTlsError> {
        let BackendSettings { ca, pins, name } = settings;
        if ca.is_none() && pins.is_empty() {
            return Err(BackendTlsError::Nothing);
        }
        let provider = Arc::new(default_provider());
        let signed = match ca {
            None => None,
            Some(path) => {
                let failed = |reason: String| BackendTlsError::Ca { path: path.clone(), reason };
                let roots = Arc::new(roots(path).map_err(failed)?);
                let verifier =
                    WebPkiServerVerifier::builder_with_provider(roots, Arc::clone(&provider));
                Some(verifier.build().map_err(|error| failed(error.to_string()))?)
            }
        };
        let verifier = Verifier { signed, pins: pins.clone(), provider: Arc::clone(&provider) };
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(verifier))
            .with_no_client_auth();
        let parsed = name.clone().map(|name| {
            ServerName::try_from(name.clone()).map_err(|_| BackendTlsError::Name(name))
        });
        Ok(Self { config: Arc::new(config), name: parsed.transpose()? })
    }

    /// The client's side of a new connection to the backend at `address`, which is offered
    /// `protocol` (RFC 7301), or none.
    ///
    /// # Errors
    /// rustls refuses the configuration.
    pub fn connect(
        &self,
        address: IpAddr,
        protocol: Option<&str>,
    ) -> Result<BackendSession, BackendError> {
        let name = self.name.clone().unwrap_or_else(|| ServerName::from(address));
        let protocols = protocol.map(|own| own.as_bytes().to_vec()).into_iter().collect();
        let config = Arc::clone(&self.config);
        let mut tls = ClientConnection::new_with_alpn(config, name, protocols)?;
        // The caller bounds what it writes.
        tls.set_buffer_limit(None);
        Ok(BackendSession { tls, closed: false })
    }
}

/// A backend is not believed, or does not keep to the protocol.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("{0}")]
pub struct BackendError(#[from] Error);

/// One connection to a backend: sealed bytes and plain ones, both ways.
pub struct BackendSession {
    tls: ClientConnection,
    closed: bool,
}

impl std::fmt::Debug for BackendSession {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "BackendSession(handshaking: {})", self.tls.is_handshaking())
    }
}

impl BackendSession {
    /// Whether the backend is not yet believed.
    #[must_use]
    pub fn is_handshaking(&self) -> bool {
        self.tls.is_handshaking()
    }

    /// Whether the backend has said that it sends no more (close_notify).
    #[must_use]
    pub const fn has_closed(&self) -> bool {
        self.closed
    }

    /// Takes sealed bytes of the backend's and puts plain ones behind `plain`; returns how
    /// many were taken.
    ///
    /// # Errors
    /// The connection is over; what the backend is told is still to be sealed out.
    pub fn open(&mut self, mut sealed: &[u8], plain: &mut Vec<u8>) -> Result<usize, BackendError> {
        // From memory nothing else can go wrong than that the records are too long.
        let taken = self.tls.read_tls(&mut sealed).unwrap_or(0);
        let state = self.tls.process_new_packets()?;
        self.closed |= state.peer_has_closed();
        let (from, length) = (plain.len(), state.plaintext_bytes_to_read());
        plain.resize(from + length, 0);
        let read = self.tls.reader().read(plain.get_mut(from..).unwrap_or_default());
        plain.truncate(from + read.unwrap_or(0));
        Ok(taken)
    }

    /// Takes plain bytes for the backend.
    pub fn write(&mut self, plain: &[u8]) {
        // There is no limit, so all of it is taken.
        let _ = self.tls.writer().write_all(plain);
    }

    /// Puts what is sealed for the backend behind `out`.
    pub fn seal(&mut self, out: &mut Vec<u8>) {
        while self.tls.wants_write() {
            // Writing into memory can't fail.
            if self.tls.write_tls(out).is_err() {
                return;
            }
        }
    }

    /// Nothing more will be written.
    pub fn close(&mut self) {
        self.tls.send_close_notify();
    }
}

/// Believes an authority, pins, or both.
#[derive(Debug)]
struct Verifier {
    signed: Option<Arc<WebPkiServerVerifier>>,
    pins: Vec<Fingerprint>,
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        chain: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        if !self.pins.is_empty() {
            let own = digest(&SHA256, certificate);
            if !self.pins.iter().any(|pin| pin[..] == *own.as_ref()) {
                return Err(Error::InvalidCertificate(
                    CertificateError::ApplicationVerificationFailure,
                ));
            }
        }
        match &self.signed {
            Some(signed) => signed.verify_server_cert(certificate, chain, name, ocsp, now),
            None => Ok(ServerCertVerified::assertion()),
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls12_signature(message, certificate, signed, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signed, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}
