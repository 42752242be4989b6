//! Who a client is by its certificate, in words that fit into a header.
use aws_lc_rs::digest::{SHA256, digest};
use rustls::CertificateError;
use x509_parser::der_parser::asn1_rs::{FromDer, Oid};
use x509_parser::objects::{oid_registry, oid2abbrev};
use x509_parser::prelude::X509Certificate;
use x509_parser::x509::{AttributeTypeAndValue, RelativeDistinguishedName, X509Name};

/// Why a client's certificate is not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClientRefusal {
    /// There is none.
    Missing,
    /// It is not valid yet, or not any more.
    Expired,
    /// It is not of an authority that is believed.
    Untrusted,
    /// Its authority has revoked it.
    Revoked,
    /// Its authority's list of revoked certificates is missing.
    Unlisted,
    /// It is not for clients, its signature is wrong, or it can't be read.
    Invalid,
}

impl ClientRefusal {
    /// What rustls says of a client; `None`: the certificate is not the reason.
    pub(crate) fn of(error: &rustls::Error) -> Option<Self> {
        let error = match error {
            rustls::Error::NoCertificatesPresented => return Some(Self::Missing),
            rustls::Error::InvalidCertificate(error) => error,
            rustls::Error::InvalidCertRevocationList(_) => return Some(Self::Unlisted),
            _ => return None,
        };
        Some(match error {
            CertificateError::Expired
            | CertificateError::ExpiredContext { .. }
            | CertificateError::NotValidYet
            | CertificateError::NotValidYetContext { .. } => Self::Expired,
            CertificateError::UnknownIssuer => Self::Untrusted,
            CertificateError::Revoked => Self::Revoked,
            CertificateError::UnknownRevocationStatus => Self::Unlisted,
            _ => Self::Invalid,
        })
    }
}

/// A client's own certificate, whose signature has been verified.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientCertificate {
    /// The certificate.
    pub der: Vec<u8>,
    /// Its subject as RFC 4514 writes it, in visible ASCII: `CN=alice,O=Example`.
    pub subject: String,
    /// Its serial number in hexadecimal.
    pub serial: String,
    /// Its SHA-256 in hexadecimal.
    pub fingerprint: String,
}

impl ClientCertificate {
    /// Reads a certificate; `None`: it is none.
    #[must_use]
    pub fn read(der: &[u8]) -> Option<Self> {
        let (_, certificate) = X509Certificate::from_der(der).ok()?;
        Some(Self {
            der: der.to_vec(),
            subject: name(certificate.subject()),
            serial: hex(certificate.raw_serial()),
            fingerprint: hex(digest(&SHA256, der).as_ref()),
        })
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The name, the last part first (RFC 4514 section 2.1).
fn name(name: &X509Name<'_>) -> String {
    let parts: Vec<&RelativeDistinguishedName<'_>> = name.iter_rdn().collect();
    let parts: Vec<String> = parts.into_iter().rev().map(part).collect();
    parts.join(",")
}

fn part(part: &RelativeDistinguishedName<'_>) -> String {
    part.iter().map(attribute).collect::<Vec<_>>().join("+")
}

fn attribute(own: &AttributeTypeAndValue<'_>) -> String {
    let kind = abbreviation(own.attr_type());
    match (kind, own.as_str()) {
        (Some(kind), Ok(text)) => format!("{kind}={}", escaped(text)),
        (None, _) | (_, Err(_)) => {
            let kind = kind.map_or_else(|| own.attr_type().to_id_string(), str::to_owned);
            // What has no text is written as its octets (section 2.4).
            format!("{kind}=#{}", hex(own.attr_value().data))
        }
    }
}

fn abbreviation<'a>(kind: &'a Oid<'a>) -> Option<&'a str> {
    oid2abbrev(kind, oid_registry()).ok()
}

/// The text of a value, in which only visible ASCII stands for itself (section 2.4).
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let last = text.len().saturating_sub(1);
    for (at, byte) in text.bytes().enumerate() {
        let is_edge = (at == 0 && matches!(byte, b' ' | b'#')) || (at == last && byte == b' ');
        match byte {
            b'"' | b'+' | b',' | b';' | b'<' | b'>' | b'\\' | b'=' => {
                out.push('\\');
                out.push(char::from(byte));
            }
            _ if is_edge => {
                out.push('\\');
                out.push(char::from(byte));
            }
            b' '..=b'~' => out.push(char::from(byte)),
            _ => out.push_str(&format!("\\{byte:02X}")),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rcgen::{CertificateParams, DnType, DnValue, KeyPair, SerialNumber};

    use super::*;

    fn read(names: &[(DnType, &str)]) -> ClientCertificate {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.distinguished_name = rcgen::DistinguishedName::new();
        params.serial_number = Some(SerialNumber::from(0x0abc_u64));
        for (kind, text) in names {
            params.distinguished_name.push(kind.clone(), DnValue::Utf8String((*text).to_owned()));
        }
        let key = KeyPair::generate().unwrap();
        ClientCertificate::read(params.self_signed(&key).unwrap().der()).unwrap()
    }

    #[test]
    fn a_subject_is_written_backwards_and_escaped() {
        let found = read(&[
            (DnType::CountryName, "AT"),
            (DnType::OrganizationName, "A, B + \"C\""),
            (DnType::CommonName, " Jörg\r\nX-Admin: 1"),
        ]);
        assert_eq!(
            found.subject,
            "CN=\\ J\\C3\\B6rg\\0D\\0AX-Admin: 1,O=A\\, B \\+ \\\"C\\\",C=AT"
        );
        assert_eq!(found.serial, "0abc");
        assert_eq!(found.fingerprint.len(), 64);
    }

    proptest! {
        #[test]
        fn a_subject_fits_into_a_header(text in any::<String>()) {
            let found = read(&[(DnType::CommonName, &text)]);
            prop_assert!(found.subject.bytes().all(|byte| (b' '..=b'~').contains(&byte)));
        }

        #[test]
        fn garbage_is_none_and_no_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            prop_assert_eq!(ClientCertificate::read(&bytes), None);
        }
    }
}
