//! The server's certificates, and both ends' settings.
use std::sync::Arc;

use rcgen::{
    CertificateParams, KeyPair, PKCS_ECDSA_P256_SHA256, PKCS_ED25519, PKCS_RSA_SHA256,
    SignatureAlgorithm,
};
use rustls::crypto::aws_lc_rs::{cipher_suite, default_provider, kx_group};
use rustls::crypto::{CryptoProvider, SupportedKxGroup};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, ServerConfig, version};

use super::options::CryptoBenchError;

/// The name in the certificates.
const NAME: &str = "hnlb.test";

/// The certificate's key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Signature {
    Rsa2048,
    EcdsaP256,
    Ed25519,
}

impl Signature {
    pub(super) const ALL: [Self; 3] = [Self::Rsa2048, Self::EcdsaP256, Self::Ed25519];

    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Rsa2048 => "RSA-2048",
            Self::EcdsaP256 => "ECDSA-P256",
            Self::Ed25519 => "Ed25519",
        }
    }

    fn algorithm(self) -> &'static SignatureAlgorithm {
        match self {
            Self::Rsa2048 => &PKCS_RSA_SHA256,
            Self::EcdsaP256 => &PKCS_ECDSA_P256_SHA256,
            Self::Ed25519 => &PKCS_ED25519,
        }
    }
}

/// How both ends agree on a secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum KeyExchange {
    X25519,
    X25519MlKem768,
}

impl KeyExchange {
    pub(super) const ALL: [Self; 2] = [Self::X25519, Self::X25519MlKem768];

    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::X25519 => "X25519",
            Self::X25519MlKem768 => "X25519MLKEM768",
        }
    }

    fn group(self) -> &'static dyn SupportedKxGroup {
        match self {
            Self::X25519 => kx_group::X25519,
            Self::X25519MlKem768 => kx_group::X25519MLKEM768,
        }
    }
}

/// Both ends of connections with one certificate.
#[derive(Clone)]
pub(super) struct Ends {
    pub(super) server: Arc<ServerConfig>,
    client: Arc<ClientConfig>,
}

impl Ends {
    /// A certificate for the key, signed by itself, and ends that agree on
    /// TLS 1.3, `exchange` and AES-128-GCM.
    pub(super) fn new(
        signature: Signature,
        exchange: KeyExchange,
    ) -> Result<Self, CryptoBenchError> {
        let key = KeyPair::generate_for(signature.algorithm())?;
        let certificate = CertificateParams::new(vec![NAME.to_owned()])?.self_signed(&key)?;
        let chain = vec![CertificateDer::from(certificate.der().to_vec())];
        let private = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));
        let provider = Arc::new(CryptoProvider {
            cipher_suites: vec![cipher_suite::TLS13_AES_128_GCM_SHA256],
            kx_groups: vec![exchange.group()],
            ..default_provider()
        });
        let mut roots = RootCertStore::empty();
        for certificate in &chain {
            roots.add(certificate.clone())?;
        }
        let server = ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_protocol_versions(&[&version::TLS13])?
            .with_no_client_auth()
            .with_single_cert(chain, private)?;
        let client = ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&version::TLS13])?
            .with_root_certificates(roots)
            .with_no_client_auth();
        Ok(Self { server: Arc::new(server), client: Arc::new(client) })
    }

    /// A client that remembers the tickets of those before, or none.
    pub(super) fn client(&self, resumes: bool) -> Result<ClientConnection, CryptoBenchError> {
        let mut config = Arc::clone(&self.client);
        if !resumes {
            let own = Arc::make_mut(&mut config);
            own.resumption = rustls::client::Resumption::disabled();
        }
        let name = ServerName::try_from(NAME)
            .map_err(|_| rustls::Error::General(format!("'{NAME}' is no server's name")))?;
        Ok(ClientConnection::new(config, name)?)
    }

    /// The bytes of a new client's first message.
    pub(super) fn client_hello(&self) -> Result<Vec<u8>, CryptoBenchError> {
        let mut hello = Vec::new();
        self.client(false)?.write_tls(&mut hello)?;
        Ok(hello)
    }
}
