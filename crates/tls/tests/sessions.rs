//! Handshakes and records against rustls' own client, which does its records itself.
#![allow(clippy::unwrap_used, clippy::panic)]
use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use proptest::prelude::*;
use rcgen::{
    BasicConstraints, CertificateParams, CertificateRevocationListParams, CertifiedIssuer, DnType,
    IsCa, KeyIdMethod, KeyPair, KeyUsagePurpose, RevokedCertParams, SerialNumber, date_time_ymd,
};
use rustls::crypto::aws_lc_rs::{cipher_suite as suites, default_provider};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, SupportedCipherSuite};
use tls::{
    Alert, Certificate, CertificateError, ClientRefusal, Established, Handshake, Incoming,
    OVERHEAD, Progress, ServerSettings, Session, SessionError, TicketKey, Tls, Version,
};

const SUITES: [(SupportedCipherSuite, Version); 6] = [
    (suites::TLS13_AES_128_GCM_SHA256, Version::Tls13),
    (suites::TLS13_AES_256_GCM_SHA384, Version::Tls13),
    (suites::TLS13_CHACHA20_POLY1305_SHA256, Version::Tls13),
    (suites::TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256, Version::Tls12),
    (suites::TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384, Version::Tls12),
    (suites::TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256, Version::Tls12),
];

/// An authority and a directory for what it signs.
struct Authority {
    issuer: CertifiedIssuer<'static, KeyPair>,
    dir: tempfile::TempDir,
}

impl Authority {
    fn new() -> Self {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        params.distinguished_name.push(DnType::CommonName, "the authority");
        let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
        Self { issuer, dir: tempfile::tempdir().unwrap() }
    }

    fn sign(&self, file: &str, names: &[&str]) -> Certificate {
        let key = KeyPair::generate().unwrap();
        let all: Vec<String> = names.iter().map(ToString::to_string).collect();
        let params = CertificateParams::new(all.clone()).unwrap();
        let signed = params.signed_by(&key, &self.issuer).unwrap();
        let put = |kind: &str, text: String| {
            let path = self.dir.path().join(format!("{file}.{kind}"));
            std::fs::write(&path, text).unwrap();
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
            path
        };
        let (chain, key) = (put("crt", signed.pem()), put("key", key.serialize_pem()));
        Certificate { names: all, chain, key, ocsp: None }
    }

    /// A client's certificate with the serial number 7, which ends in `year`.
    fn sign_until(&self, file: &str, year: i32) -> Certificate {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(vec!["client.example".to_owned()]).unwrap();
        params.serial_number = Some(SerialNumber::from(7_u64));
        params.not_after = date_time_ymd(year, 1, 1);
        let signed = params.signed_by(&key, &self.issuer).unwrap();
        let put = |kind: &str, text: String| {
            let path = self.dir.path().join(format!("{file}.{kind}"));
            std::fs::write(&path, text).unwrap();
            path
        };
        let (chain, key) = (put("crt", signed.pem()), put("key", key.serialize_pem()));
        Certificate { names: Vec::new(), chain, key, ocsp: None }
    }

    /// A list of revoked serial numbers.
    fn revoke(&self, serials: &[u64]) -> PathBuf {
        let revoked = serials.iter().map(|serial| RevokedCertParams {
            serial_number: SerialNumber::from(*serial),
            revocation_time: date_time_ymd(2020, 1, 1),
            reason_code: None,
            invalidity_date: None,
        });
        let params = CertificateRevocationListParams {
            this_update: date_time_ymd(2020, 1, 1),
            next_update: date_time_ymd(2999, 1, 1),
            crl_number: SerialNumber::from(1_u64),
            issuing_distribution_point: None,
            revoked_certs: revoked.collect(),
            key_identifier_method: KeyIdMethod::Sha256,
        };
        let path = self.dir.path().join("crl");
        std::fs::write(&path, params.signed_by(&self.issuer).unwrap().pem().unwrap()).unwrap();
        path
    }

    fn ca(&self) -> PathBuf {
        let path = self.dir.path().join("ca.crt");
        std::fs::write(&path, self.issuer.pem()).unwrap();
        path
    }

    fn roots(&self) -> RootCertStore {
        let mut roots = RootCertStore::empty();
        roots.add(self.issuer.der().clone()).unwrap();
        roots
    }

    fn client(&self, suite: SupportedCipherSuite) -> ClientConfig {
        let provider =
            rustls::crypto::CryptoProvider { cipher_suites: vec![suite], ..default_provider() };
        ClientConfig::builder_with_provider(Arc::new(provider))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(self.roots())
            .with_no_client_auth()
    }
}

fn settings(certificates: Vec<Certificate>) -> ServerSettings {
    ServerSettings {
        certificates,
        alpn: vec!["http/1.1".to_owned()],
        oldest: Version::Tls12,
        tickets: TicketKey::new([7; 32]),
        client_ca: None,
        client_crl: None,
        client_required: false,
    }
}

fn connect(config: ClientConfig, name: &str) -> ClientConnection {
    let name = ServerName::try_from(name.to_owned()).unwrap();
    ClientConnection::new(Arc::new(config), name).unwrap()
}

fn sent(client: &mut ClientConnection) -> Vec<u8> {
    let mut bytes = Vec::new();
    while client.wants_write() {
        client.write_tls(&mut bytes).unwrap();
    }
    bytes
}

fn receive(client: &mut ClientConnection, mut bytes: &[u8]) -> Result<(), rustls::Error> {
    while !bytes.is_empty() {
        client.read_tls(&mut bytes).unwrap();
        client.process_new_packets()?;
    }
    Ok(())
}

/// Lets both sides talk, `piece` bytes of the client's at a time.
fn shake(tls: &Tls, client: &mut ClientConnection, piece: usize) -> Result<Established, String> {
    let mut handshake = Handshake::new(tls).unwrap();
    for _ in 0..20 {
        let bytes = sent(client);
        assert!(!bytes.is_empty(), "both sides wait");
        let mut pieces = bytes.chunks(piece).peekable();
        while let Some(piece) = pieces.next() {
            let mut out = Vec::new();
            let progress = handshake.feed(piece, &mut out);
            let told = receive(client, &out);
            match progress.map_err(|error| error.to_string())? {
                Progress::More(more) => handshake = more,
                Progress::Established(mut established) => {
                    established.rest.extend(pieces.flatten());
                    told.map_err(|error| error.to_string())?;
                    return Ok(*established);
                }
            }
            told.map_err(|error| error.to_string())?;
        }
    }
    panic!("the handshake never ends")
}

/// Opens every record of `bytes`; the data in them.
fn open_all(session: &mut Session, bytes: &mut [u8]) -> Vec<u8> {
    let (mut data, mut rest) = (Vec::new(), bytes);
    while !rest.is_empty() {
        let len = session.peek(rest).unwrap().unwrap().len;
        let (record, next) = rest.split_at_mut(len);
        match session.open(record).unwrap() {
            Incoming::Data(place) => data.extend_from_slice(&record[place]),
            Incoming::Nothing | Incoming::Close => {}
            Incoming::KeyUpdate { .. } => panic!("no key update was asked for"),
        }
        rest = next;
    }
    data
}

fn seal(session: &mut Session, data: &[u8]) -> Vec<u8> {
    let mut out = vec![0; data.len() + OVERHEAD];
    let len = session.seal(data, &mut out).unwrap();
    out.truncate(len);
    out
}

fn read(client: &mut ClientConnection, len: usize) -> Vec<u8> {
    let mut data = vec![0; len];
    client.reader().read_exact(&mut data).unwrap();
    data
}

#[test]
fn every_suite_carries_data_both_ways_over_hellos_in_pieces() {
    let authority = Authority::new();
    let tls = Tls::new(settings(vec![authority.sign("a", &["a.example"])])).unwrap();
    for (suite, version) in SUITES {
        for piece in [1, 100, 100_000] {
            let mut config = authority.client(suite);
            config.alpn_protocols = vec![b"http/1.1".to_vec()];
            let mut client = connect(config, "a.example");
            let established = shake(&tls, &mut client, piece).unwrap();
            assert_eq!(established.alpn.as_deref(), Some("http/1.1"));
            assert_eq!(established.secrets.version, version);
            let mut session = Session::new(&established.secrets).unwrap();
            let mut rest = established.rest;
            rest.extend(sent(&mut client));
            assert_eq!(open_all(&mut session, &mut rest), b"");
            for length in [1, 100, 16_384, 40_000] {
                let data: Vec<u8> = (0..length).map(|at| at as u8).collect();
                client.writer().write_all(&data).unwrap();
                assert_eq!(open_all(&mut session, &mut sent(&mut client)), data);
                for part in data.chunks(10_000) {
                    receive(&mut client, &seal(&mut session, part)).unwrap();
                    assert_eq!(read(&mut client, part.len()), part);
                }
            }
            client.send_close_notify();
            let mut close = sent(&mut client);
            assert_eq!(session.open(&mut close).unwrap(), Incoming::Close);
            let mut out = [0; 64];
            let len = session.seal_alert(Alert::CLOSE, &mut out).unwrap();
            receive(&mut client, &out[..len]).unwrap();
            assert_eq!(client.reader().read(&mut [0; 1]).unwrap(), 0, "closed in order");
        }
    }
}

#[test]
fn keys_are_updated_from_both_sides() {
    let authority = Authority::new();
    let tls = Tls::new(settings(vec![authority.sign("a", &["a.example"])])).unwrap();
    let mut client = connect(authority.client(SUITES[0].0), "a.example");
    let mut established = shake(&tls, &mut client, 100_000).unwrap();
    let mut session = Session::new(&established.secrets).unwrap();
    for _ in 0..3 {
        client.refresh_traffic_keys().unwrap();
        let mut update = sent(&mut client);
        assert_eq!(session.open(&mut update).unwrap(), Incoming::KeyUpdate { answer: true });
        client.writer().write_all(b"new key").unwrap();
        let mut record = sent(&mut client);
        assert_eq!(session.open(&mut record.clone()), Err(SessionError::NoKey));
        session.set_receive(&established.successor.next_receive().unwrap()).unwrap();
        assert_eq!(open_all(&mut session, &mut record), b"new key");
        let mut out = [0; 64];
        let next = established.successor.next_transmit().unwrap();
        let len = session.update_transmit(&next, &mut out).unwrap();
        receive(&mut client, &out[..len]).unwrap();
        receive(&mut client, &seal(&mut session, b"answer")).unwrap();
        assert_eq!(read(&mut client, 6), b"answer");
    }
    let key = established.successor.next_receive().unwrap();
    assert_eq!(session.set_receive(&key), Err(SessionError::Unexpected), "none was announced");
}

#[test]
fn a_flood_of_key_updates_ends_the_session() {
    let authority = Authority::new();
    let tls = Tls::new(settings(vec![authority.sign("a", &["a.example"])])).unwrap();
    let mut client = connect(authority.client(SUITES[0].0), "a.example");
    let mut established = shake(&tls, &mut client, 100_000).unwrap();
    let mut session = Session::new(&established.secrets).unwrap();
    for number in 0.. {
        client.refresh_traffic_keys().unwrap();
        match session.open(&mut sent(&mut client)) {
            Ok(_) => session.set_receive(&established.successor.next_receive().unwrap()).unwrap(),
            Err(error) => {
                assert_eq!((number, error), (64, SessionError::Idle));
                break;
            }
        }
    }
}

#[test]
fn sessions_are_resumed_by_another_load_balancer_with_the_same_key() {
    let authority = Authority::new();
    let certificate = authority.sign("a", &["a.example"]);
    for (suite, version) in SUITES {
        let one = Tls::new(settings(vec![certificate.clone()])).unwrap();
        let other = Tls::new(settings(vec![certificate.clone()])).unwrap();
        let stranger = ServerSettings {
            tickets: TicketKey::new([8; 32]),
            ..settings(vec![certificate.clone()])
        };
        let config = Arc::new(authority.client(suite));
        let open = |tls: &Tls| {
            let name = ServerName::try_from("a.example").unwrap();
            let mut client = ClientConnection::new(Arc::clone(&config), name).unwrap();
            shake(tls, &mut client, 100_000).unwrap();
            client.handshake_kind().unwrap()
        };
        assert_eq!(open(&one), rustls::HandshakeKind::Full, "{version:?}");
        assert_eq!(open(&other), rustls::HandshakeKind::Resumed, "{version:?}");
        let stranger = Tls::new(stranger).unwrap();
        assert_eq!(open(&stranger), rustls::HandshakeKind::Full, "{version:?}");
    }
}

#[test]
fn the_name_chooses_the_certificate_and_a_reload_exchanges_it() {
    let authority = Authority::new();
    let mut any = authority.sign("any", &["other.example"]);
    any.names.clear();
    let all = vec![authority.sign("a", &["a.example"]), authority.sign("w", &["*.w.example"]), any];
    let tls = Tls::new(settings(all.clone())).unwrap();
    let fits = |tls: &Tls, name: &str| {
        let mut client = connect(authority.client(SUITES[0].0), name);
        shake(tls, &mut client, 100_000).map(drop)
    };
    for name in ["a.example", "x.w.example", "other.example"] {
        assert_eq!(fits(&tls, name), Ok(()), "{name}");
    }
    for name in ["x.y.w.example", "w.example", "b.example"] {
        assert!(fits(&tls, name).is_err(), "{name}");
    }
    tls.reload(&[authority.sign("b", &["b.example"])]).unwrap();
    assert_eq!(fits(&tls, "b.example"), Ok(()));
    assert!(fits(&tls, "a.example").is_err());
    let exposed = authority.sign("c", &["c.example"]);
    std::fs::set_permissions(&exposed.key, std::fs::Permissions::from_mode(0o640)).unwrap();
    let error = tls.reload(std::slice::from_ref(&exposed)).unwrap_err();
    assert!(matches!(error, CertificateError::Exposed { mode: 0o640, .. }), "{error}");
    assert!(error.to_string().contains("chmod 0600"), "{error}");
    assert_eq!(fits(&tls, "b.example"), Ok(()), "nothing has changed");
}

#[test]
fn files_that_do_not_fit_are_named() {
    let authority = Authority::new();
    let (one, other) = (authority.sign("a", &["a.example"]), authority.sign("b", &["b.example"]));
    let refused = |certificates: Vec<Certificate>| Tls::new(settings(certificates)).unwrap_err();
    let mixed = Certificate { key: other.key.clone(), ..one.clone() };
    assert!(refused(vec![mixed]).to_string().contains("is not the private key of"));
    let absent = Certificate { chain: Path::new("/none.crt").into(), ..one.clone() };
    assert!(refused(vec![absent]).to_string().starts_with("/none.crt"));
    let swapped = Certificate { chain: one.key.clone(), ..one.clone() };
    assert!(refused(vec![swapped]).to_string().contains("no certificate in PEM"));
    assert!(refused(vec![one.clone(), one.clone()]).to_string().contains("two certificates"));
    let odd = Certificate { names: vec!["a b".to_owned()], ..one };
    assert!(refused(vec![odd]).to_string().contains("'a b' is no name"));
    assert!(refused(Vec::new()).to_string().contains("needs a certificate"));
}

#[test]
fn clients_have_to_prove_who_they_are_where_that_is_required() {
    let authority = Authority::new();
    let server = authority.sign("a", &["a.example"]);
    let required = || ServerSettings {
        client_ca: Some(authority.ca()),
        client_required: true,
        ..settings(vec![server.clone()])
    };
    let tls = Tls::new(required()).unwrap();
    let mut client = connect(authority.client(SUITES[0].0), "a.example");
    assert!(shake(&tls, &mut client, 100_000).is_err());
    let own = authority.sign("client", &["client.example"]);
    let chain = vec![CertificateDer::from_pem_file(&own.chain).unwrap()];
    let key = PrivateKeyDer::from_pem_file(&own.key).unwrap();
    let config = ClientConfig::builder_with_provider(Arc::new(default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(authority.roots())
        .with_client_auth_cert(chain.clone(), key)
        .unwrap();
    let established = shake(&tls, &mut connect(config, "a.example"), 100_000).unwrap();
    assert_eq!(established.client_certificate.unwrap().der, chain[0].as_ref());
    let optional = ServerSettings { client_required: false, ..required() };
    let tls = Tls::new(optional).unwrap();
    let mut client = connect(authority.client(SUITES[0].0), "a.example");
    assert_eq!(shake(&tls, &mut client, 100_000).unwrap().client_certificate, None);
}

/// A client that shows `own`.
fn showing(authority: &Authority, own: &Certificate) -> ClientConnection {
    let chain = vec![CertificateDer::from_pem_file(&own.chain).unwrap()];
    let key = PrivateKeyDer::from_pem_file(&own.key).unwrap();
    let config = ClientConfig::builder_with_provider(Arc::new(default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(authority.roots())
        .with_client_auth_cert(chain, key)
        .unwrap();
    connect(config, "a.example")
}

#[test]
fn why_a_client_is_refused_is_told_apart() {
    let (authority, other) = (Authority::new(), Authority::new());
    let certificate = authority.sign("a", &["a.example"]);
    let required = |client_crl| ServerSettings {
        client_ca: Some(authority.ca()),
        client_crl,
        client_required: true,
        ..settings(vec![certificate.clone()])
    };
    let tls = Tls::new(required(None)).unwrap();
    let refused = |tls: &Tls, mut client: ClientConnection| refusal(tls, &mut client);
    let none = connect(authority.client(SUITES[0].0), "a.example");
    assert_eq!(refused(&tls, none), Some(ClientRefusal::Missing));
    // The name of the issuer is the same.
    let found = refused(&tls, showing(&authority, &other.sign("c", &["c.example"])));
    assert!(matches!(found, Some(ClientRefusal::Untrusted | ClientRefusal::Invalid)), "{found:?}");
    let old = authority.sign_until("old", 2001);
    assert_eq!(refused(&tls, showing(&authority, &old)), Some(ClientRefusal::Expired));
    let good = authority.sign_until("good", 2999);
    assert_eq!(refused(&tls, showing(&authority, &good)), None);
    let list = authority.revoke(&[7]);
    let tls = Tls::new(required(Some(list))).unwrap();
    assert_eq!(refused(&tls, showing(&authority, &good)), Some(ClientRefusal::Revoked));
    let list = authority.revoke(&[8]);
    let tls = Tls::new(required(Some(list))).unwrap();
    assert_eq!(refused(&tls, showing(&authority, &good)), None);
    let list = other.revoke(&[7]);
    let tls = Tls::new(required(Some(list))).unwrap();
    let found = refused(&tls, showing(&authority, &good));
    assert!(matches!(found, Some(ClientRefusal::Unlisted | ClientRefusal::Invalid)), "{found:?}");
}

/// Why the server refuses a client for its certificate.
fn refusal(tls: &Tls, client: &mut ClientConnection) -> Option<ClientRefusal> {
    let mut handshake = Handshake::new(tls).unwrap();
    loop {
        let mut out = Vec::new();
        match handshake.feed(&sent(client), &mut out) {
            Ok(Progress::More(again)) => handshake = again,
            Ok(Progress::Established(_)) => return None,
            Err(error) => return error.client(),
        }
        receive(client, &out).unwrap();
    }
}

#[test]
fn old_versions_garbage_and_endless_hellos_are_refused() {
    let authority = Authority::new();
    let newest = ServerSettings {
        oldest: Version::Tls13,
        ..settings(vec![authority.sign("a", &["a.example"])])
    };
    let tls = Tls::new(newest).unwrap();
    let mut client = connect(authority.client(SUITES[3].0), "a.example");
    assert!(shake(&tls, &mut client, 100_000).is_err());
    let mut out = Vec::new();
    let garbage = Handshake::new(&tls).unwrap().feed(b"GET / HTTP/1.1\r\n\r\n", &mut out);
    assert!(garbage.is_err());
    let mut handshake = Handshake::new(&tls).unwrap();
    // Handshake records of a hello that says it is 16 MB long.
    let mut record = vec![22, 3, 1, 0x40, 0];
    record.extend([1, 0xff, 0xff, 0xff]);
    record.resize(5 + 0x4000, 0);
    for _ in 0..10 {
        match handshake.feed(&record, &mut out) {
            Ok(Progress::More(more)) => handshake = more,
            Ok(Progress::Established(_)) => panic!("established by nothing"),
            Err(_) => return,
        }
    }
    panic!("it may send for ever");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    /// A record that is changed anywhere is not opened.
    #[test]
    fn a_changed_record_is_refused(
        suite in 0..SUITES.len(), length in 1..2000_usize,
        at in any::<prop::sample::Index>(), bit in 0..8_u8,
    ) {
        let authority = Authority::new();
        let tls = Tls::new(settings(vec![authority.sign("a", &["a.example"])])).unwrap();
        let mut client = connect(authority.client(SUITES[suite].0), "a.example");
        let established = shake(&tls, &mut client, 100_000).unwrap();
        let mut session = Session::new(&established.secrets).unwrap();
        client.writer().write_all(&vec![7; length]).unwrap();
        let mut record = sent(&mut client);
        let at = at.index(record.len());
        record[at] ^= 1 << bit;
        prop_assert!(session.open(&mut record).is_err(), "byte {}", at);
    }

    /// Any bytes as a record: no panic, and never data.
    #[test]
    fn garbage_is_never_data(suite in 0..SUITES.len(), mut garbage in prop::collection::vec(any::<u8>(), 0..200)) {
        let authority = Authority::new();
        let tls = Tls::new(settings(vec![authority.sign("a", &["a.example"])])).unwrap();
        let mut client = connect(authority.client(SUITES[suite].0), "a.example");
        let established = shake(&tls, &mut client, 100_000).unwrap();
        let mut session = Session::new(&established.secrets).unwrap();
        prop_assert!(session.open(&mut garbage).is_err());
    }
}

#[test]
fn a_client_that_offers_other_protocols_is_told() {
    let authority = Authority::new();
    let tls = Tls::new(settings(vec![authority.sign("a", &["a.example"])])).unwrap();
    for (suite, _) in [SUITES[0], SUITES[3]] {
        let mut config = authority.client(suite);
        config.alpn_protocols = vec![b"h2".to_vec()];
        let mut client = connect(config, "a.example");
        let mut out = Vec::new();
        let handshake = Handshake::new(&tls).unwrap();
        assert!(handshake.feed(&sent(&mut client), &mut out).is_err());
        let told = receive(&mut client, &out).unwrap_err();
        let alert = rustls::AlertDescription::NoApplicationProtocol;
        assert_eq!(told, rustls::Error::AlertReceived(alert));
    }
}
