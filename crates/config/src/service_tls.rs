//! `[service.tls]`: how a service terminates TLS.
use std::path::PathBuf;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::text;

/// How a service that terminates TLS speaks it with its clients.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ServiceTls {
    /// The oldest version that HNLB accepts.
    #[serde(default)]
    pub min_version: TlsVersion,
    /// Whether clients may use HTTP/2, which they negotiate by ALPN. HNLB uses HTTP/1.1 towards backends. Only with the protocol `https`.
    #[serde(default = "yes", skip_serializing_if = "Clone::clone")]
    pub http2: bool,
    /// The protocols that clients may negotiate by ALPN, in order of preference; those of the service's routes follow them. Without any, HNLB ignores the protocols that clients offer. Only with the protocol `tls`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub alpn: Vec<String>,
    /// The file with the key of session tickets: 32 bytes, or 64 hexadecimal digits; readable only by its owner. Instances with the same key accept each other's tickets. Without a file the key is random and is lost when the process ends.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ticket_key: Option<PathBuf>,
    /// The CAs of client certificates, as PEM. Without it, HNLB requests no client certificate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_ca: Option<PathBuf>,
    /// Whether HNLB refuses clients without a certificate from `client_ca`.
    #[serde(default = "yes")]
    pub client_required: bool,
    /// The certificate revocation lists of the CAs in `client_ca`, as PEM. HNLB refuses a client whose CA has no list in the file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_crl: Option<PathBuf>,
    /// Whether backends get the client's certificate itself in the field Client-Cert (RFC 9440), in addition to the fields X-Client-Cert-Subject, -Serial and -Fingerprint. Only with the protocol `https`.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub forward_client_certificate: bool,
    /// How long browsers are to use HTTPS only for the host, sent in the field Strict-Transport-Security (RFC 6797). If a backend sends the field itself, HNLB leaves it unchanged. Only with the protocol `https`.
    #[serde(default, with = "text::optional_duration", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>", extend("format" = "time-span", "x-minimum" = "1s", "x-maximum" = "87600h"))]
    pub hsts: Option<Duration>,
    /// A certificate; at least one is needed.
    #[serde(rename = "certificate", default)]
    pub certificates: Vec<TlsCertificate>,
}

/// A certificate and its private key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TlsCertificate {
    /// The server names for which HNLB sends it: `www.example.org`, or `*.example.org` for names of one more label. All other clients get the certificate without names.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub names: Vec<String>,
    /// The file with the certificate chain as PEM, the service's own certificate first.
    pub chain: PathBuf,
    /// The file with the private key as PEM; readable only by its owner.
    pub key: PathBuf,
    /// The file with an OCSP response as DER, which is stapled to the certificate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ocsp: Option<PathBuf>,
}

/// A version of TLS.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum TlsVersion {
    /// RFC 5246, with AEAD suites only.
    #[default]
    #[serde(rename = "1.2")]
    Tls12,
    /// RFC 8446.
    #[serde(rename = "1.3")]
    Tls13,
}

const fn yes() -> bool {
    true
}

impl ServiceTls {
    /// The certificates as the crate `tls` reads them.
    #[must_use]
    pub fn certificates(&self) -> Vec<tls::Certificate> {
        let given = self.certificates.iter().cloned();
        given
            .map(|TlsCertificate { names, chain, key, ocsp }| tls::Certificate {
                names,
                chain,
                key,
                ocsp,
            })
            .collect()
    }

    /// A service's side of handshakes, with the protocols `alpn` by preference. A key of
    /// tickets that no file gives is `random`.
    ///
    /// # Errors
    /// A file, and what is wrong with it.
    pub fn server(&self, random: &tls::TicketKey, alpn: Vec<String>) -> Result<tls::Tls, String> {
        let tickets = match &self.ticket_key {
            None => random.clone(),
            Some(path) => tls::TicketKey::read(path).map_err(|error| error.to_string())?,
        };
        let settings = tls::ServerSettings {
            certificates: self.certificates(),
            alpn,
            oldest: match self.min_version {
                TlsVersion::Tls12 => tls::Version::Tls12,
                TlsVersion::Tls13 => tls::Version::Tls13,
            },
            tickets,
            client_ca: self.client_ca.clone(),
            client_crl: self.client_crl.clone(),
            client_required: self.client_required,
        };
        tls::Tls::new(settings).map_err(|error| error.to_string())
    }

    /// The field Strict-Transport-Security.
    #[must_use]
    pub fn strict_transport(&self) -> Option<String> {
        self.hsts.map(|span| format!("max-age={}", span.as_secs()))
    }
}
