//! The fields of a request that say who its client is, by the certificate that the client
//! has shown. Only HNLB writes them.
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use splice::{Changes, NamedValue, Request};
use tls::ClientCertificate;

const SUBJECT: &str = "X-Client-Cert-Subject";
const SERIAL: &str = "X-Client-Cert-Serial";
const FINGERPRINT: &str = "X-Client-Cert-Fingerprint";
/// The whole certificate (RFC 9440 section 2.2).
const CERTIFICATE: &str = "Client-Cert";
/// Every field that a backend may take for HNLB's word.
const ALL: [&str; 5] = [SUBJECT, SERIAL, FINGERPRINT, CERTIFICATE, "Client-Cert-Chain"];

/// What backends are told of a client with this certificate; with `whole` also the
/// certificate itself.
pub(crate) fn fields(certificate: &ClientCertificate, whole: bool) -> Vec<NamedValue> {
    let ClientCertificate { der, subject, serial, fingerprint } = certificate;
    let mut all: Vec<NamedValue> =
        [(SUBJECT, subject), (SERIAL, serial), (FINGERPRINT, fingerprint)]
            .map(|(name, value)| (name.to_owned(), value.clone()))
            .into();
    if whole {
        all.push((CERTIFICATE.to_owned(), format!(":{}:", STANDARD.encode(der))));
    }
    all
}

/// What a configuration changes in a request, with the fields of its client.
pub(crate) struct Identified {
    set: Vec<NamedValue>,
    remove: Vec<String>,
}

impl Identified {
    /// `None`: `changes` need nothing more. What they set or remove themselves is theirs.
    pub(crate) fn new(
        request: &Request<'_>,
        fields: &[NamedValue],
        changes: &Changes<'_>,
    ) -> Option<Self> {
        let forged = request.fields.iter().filter(|field| is_own(field.name));
        let forged: Vec<String> = forged.map(|field| field.name.to_owned()).collect();
        if forged.is_empty() && fields.is_empty() {
            return None;
        }
        let own = fields.iter().filter(|(name, _)| !changes.drop(name.as_bytes()));
        let set = changes.set.iter().chain(own).cloned().collect();
        let remove = changes.remove.iter().cloned().chain(forged).collect();
        Some(Self { set, remove })
    }

    /// The changes, with `add` of the configuration's.
    pub(crate) fn changes<'a>(&'a self, add: &'a [NamedValue]) -> Changes<'a> {
        Changes { set: &self.set, add, remove: &self.remove }
    }
}

/// Whether a backend may read the name as one of HNLB's: many write `_` for `-`.
fn is_own(name: &str) -> bool {
    let same = |(a, b): (u8, u8)| a.eq_ignore_ascii_case(&b) || (a == b'_' && b == b'-');
    ALL.iter().any(|own| own.len() == name.len() && name.bytes().zip(own.bytes()).all(same))
}

#[cfg(test)]
mod tests {
    use splice::{Additions, forwarded_header};

    use super::*;

    fn header(request: &str, fields: &[NamedValue], changes: &Changes<'_>) -> String {
        let request = Request::parse(request.as_bytes()).unwrap().unwrap();
        let added = Additions { client: "10.0.0.1:1".parse().unwrap(), scheme: "https", id: 0 };
        let own = Identified::new(&request, fields, changes);
        let changes = own.as_ref().map_or(*changes, |own| own.changes(changes.add));
        String::from_utf8(forwarded_header(&request, &added, &changes).unwrap()).unwrap()
    }

    fn alice() -> Vec<NamedValue> {
        let certificate = ClientCertificate {
            der: vec![1, 2, 3, 4],
            subject: "CN=alice".to_owned(),
            serial: "0a".to_owned(),
            fingerprint: "ff".to_owned(),
        };
        fields(&certificate, true)
    }

    #[test]
    fn what_a_client_says_of_itself_does_not_pass() {
        let forged = "GET / HTTP/1.1\r\nHost: a\r\nx-client-cert-subject: CN=root\r\n\
                      X_Client_Cert-SERIAL: 1\r\nClient-Cert: :AA==:\r\nClient_Cert_Chain: x\r\n\r\n";
        let found = header(forged, &[], &Changes::default()).to_ascii_lowercase();
        assert!(!found.contains("cert"), "{found}");
        let found = header(forged, &alice(), &Changes::default());
        assert!(found.contains("\r\nX-Client-Cert-Subject: CN=alice\r\n"), "{found}");
        assert!(found.contains("\r\nClient-Cert: :AQIDBA==:\r\n"), "{found}");
        assert!(!found.contains("root") && !found.contains("AA==:\r\nClient"), "{found}");
        assert_eq!(found.to_ascii_lowercase().matches("cert").count(), 4, "{found}");
    }

    #[test]
    fn the_configuration_decides_over_the_fields() {
        let set = [("X-Client-Cert-Subject".to_owned(), "hidden".to_owned())];
        let remove = ["client-cert".to_owned()];
        let changes = Changes { set: &set, add: &[], remove: &remove };
        let found = header("GET / HTTP/1.1\r\nHost: a\r\n\r\n", &alice(), &changes);
        assert!(found.contains("X-Client-Cert-Subject: hidden\r\n"), "{found}");
        assert!(!found.contains("alice") && !found.contains("\r\nClient-Cert:"), "{found}");
        assert!(found.contains("X-Client-Cert-Serial: 0a\r\n"), "{found}");
    }

    #[test]
    fn other_requests_are_not_looked_at_twice() {
        let request = Request::parse(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n").unwrap().unwrap();
        assert!(Identified::new(&request, &[], &Changes::default()).is_none());
    }
}
