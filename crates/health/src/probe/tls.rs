//! TLS whose certificate is not verified: a health check asks whether the backend
//! answers, and an expired certificate is no reason to move its clients.
use std::net::IpAddr;
use std::sync::{Arc, OnceLock};

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, aws_lc_rs, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, Error, SignatureScheme};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

/// A handshake on `tcp` with the server `name`, by default that of `address`.
pub(super) async fn handshake(
    tcp: TcpStream,
    name: Option<&str>,
    address: IpAddr,
) -> Result<TlsStream<TcpStream>, String> {
    let without_port = name.map(|name| name.rsplit_once(':').map_or(name, |(host, _)| host));
    let known = without_port.and_then(|name| ServerName::try_from(name.to_owned()).ok());
    let server = known.unwrap_or_else(|| ServerName::from(address));
    let connector = TlsConnector::from(config()?);
    connector.connect(server, tcp).await.map_err(|error| format!("TLS handshake: {error}"))
}

fn config() -> Result<Arc<ClientConfig>, String> {
    static CONFIG: OnceLock<Result<Arc<ClientConfig>, String>> = OnceLock::new();
    let make = || {
        let provider = Arc::new(aws_lc_rs::default_provider());
        let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .map_err(|error| format!("TLS: {error}"))?;
        let any = Arc::new(AnyCertificate(provider));
        let builder = builder.dangerous().with_custom_certificate_verifier(any);
        Ok(Arc::new(builder.with_no_client_auth()))
    };
    CONFIG.get_or_init(make).clone()
}

/// Accepts every certificate; its owner must have the key.
#[derive(Debug)]
struct AnyCertificate(Arc<CryptoProvider>);

impl ServerCertVerifier for AnyCertificate {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        verify_tls12_signature(message, cert, signed, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        verify_tls13_signature(message, cert, signed, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
