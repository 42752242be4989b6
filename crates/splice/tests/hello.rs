//! ClientHellos that other programs make, and what rustls' server reads in them.
#![allow(clippy::unwrap_used, reason = "tests may")]
use std::sync::Arc;

use proptest::prelude::*;
use rustls::client::{EchConfig, EchMode};
use rustls::crypto::aws_lc_rs::{default_provider, hpke};
use rustls::crypto::hpke::Hpke;
use rustls::pki_types::ServerName;
use rustls::server::Acceptor;
use rustls::{ClientConfig, ClientConnection, ProtocolVersion, RootCertStore, version};
use splice::{Hello, HelloError};

/// What a rustls client sends first.
fn hello(config: ClientConfig, name: &str) -> Vec<u8> {
    let name = ServerName::try_from(name.to_owned()).unwrap();
    let mut client = ClientConnection::new(Arc::new(config), name).unwrap();
    let mut bytes = Vec::new();
    while client.wants_write() {
        client.write_tls(&mut bytes).unwrap();
    }
    bytes
}

fn config(versions: &[&'static rustls::SupportedProtocolVersion]) -> ClientConfig {
    ClientConfig::builder_with_provider(Arc::new(default_provider()))
        .with_protocol_versions(versions)
        .unwrap()
        .with_root_certificates(RootCertStore::empty())
        .with_no_client_auth()
}

const SEVERAL: [&[&rustls::SupportedProtocolVersion]; 3] =
    [&[&version::TLS13], &[&version::TLS12], &[&version::TLS13, &version::TLS12]];

/// What is read of a hello: the server name and the protocols.
type Seen = (Option<Vec<u8>>, Vec<Vec<u8>>);

fn ours(bytes: &[u8]) -> Result<Option<Seen>, HelloError> {
    let seen = |hello: Hello| {
        let protocols = hello.protocols().map(<[u8]>::to_vec).collect();
        (hello.name.map(|name| name.to_vec()), protocols)
    };
    Hello::parse(bytes).map(|hello| hello.map(seen))
}

/// `Err`: rustls refuses the hello.
fn theirs(mut bytes: &[u8]) -> Result<Option<Seen>, ()> {
    let mut acceptor = Acceptor::default();
    while !bytes.is_empty() {
        acceptor.read_tls(&mut bytes).map_err(drop)?;
        let Some(accepted) = acceptor.accept().map_err(drop)? else { continue };
        let hello = accepted.client_hello();
        let name = hello.server_name().map(|name| name.to_ascii_lowercase().into_bytes());
        let protocols = hello.alpn().into_iter().flatten().map(<[u8]>::to_vec).collect();
        return Ok(Some((name, protocols)));
    }
    Ok(None)
}

#[test]
fn hellos_of_rustls_are_read_over_any_records() {
    for versions in SEVERAL {
        for fragment in [None, Some(64), Some(200)] {
            let mut config = config(versions);
            config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
            config.max_fragment_size = fragment;
            let bytes = hello(config, "WWW.some.example");
            let wanted: Seen =
                (Some(b"www.some.example".to_vec()), vec![b"h2".to_vec(), b"http/1.1".to_vec()]);
            assert_eq!(ours(&bytes), Ok(Some(wanted.clone())), "{fragment:?}");
            assert_eq!(theirs(&bytes), Ok(Some(wanted)), "{fragment:?}");
        }
        assert_eq!(ours(&hello(config(versions), "192.0.2.1")), Ok(Some((None, Vec::new()))));
    }
}

/// A list with one configuration of ECH (RFC 9849 section 4) for the public name.
fn ech_list(suite: &dyn Hpke, public_name: &str) -> Vec<u8> {
    let long = |bytes: &[u8]| [&(bytes.len() as u16).to_be_bytes(), bytes].concat();
    let own = suite.suite();
    let (key, _) = suite.generate_key_pair().unwrap();
    let mut contents = vec![7];
    contents.extend(u16::from(own.kem).to_be_bytes());
    contents.extend(long(&key.0));
    let [kdf, aead] = [u16::from(own.sym.kdf_id), u16::from(own.sym.aead_id)];
    contents.extend(long(&[kdf.to_be_bytes(), aead.to_be_bytes()].concat()));
    contents.extend([0, public_name.len() as u8]);
    contents.extend(public_name.bytes());
    contents.extend(long(&[]));
    long(&[&0xfe0d_u16.to_be_bytes()[..], &long(&contents)].concat())
}

#[test]
fn with_ech_the_outer_name_is_read() {
    let suite = hpke::DH_KEM_X25519_HKDF_SHA256_AES_128;
    let list = ech_list(suite, "outer.example");
    let ech = EchConfig::new(list.into(), hpke::ALL_SUPPORTED_SUITES).unwrap();
    let config = ClientConfig::builder_with_provider(Arc::new(default_provider()))
        .with_ech(EchMode::Enable(ech))
        .unwrap()
        .with_root_certificates(RootCertStore::empty())
        .with_no_client_auth();
    let bytes = hello(config, "inner.example");
    let (name, _) = ours(&bytes).unwrap().unwrap();
    assert_eq!(name.as_deref(), Some(&b"outer.example"[..]));
    assert!(!bytes.windows(13).any(|part| part == b"inner.example"));
}

/// Whether the bytes are whole records.
fn ends_with_a_record(mut bytes: &[u8]) -> bool {
    while let [_, _, _, high, low, rest @ ..] = bytes {
        let length = usize::from(u16::from_be_bytes([*high, *low]));
        let Some(behind) = rest.get(length..) else { return false };
        bytes = behind;
    }
    bytes.is_empty()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 10_000, failure_persistence: None, ..ProptestConfig::default() })]

    /// A hello of rustls with some bytes changed, or without its end.
    #[test]
    fn what_rustls_accepts_is_read_alike(
        versions in 0..3_usize,
        alpn in prop::collection::vec("[a-z/.0-9]{1,9}", 0..4),
        changes in prop::collection::vec((any::<prop::sample::Index>(), prop_oneof![0_u8..4, any::<u8>(), Just(16), Just(22)]), 0..4),
        cut in prop::option::weighted(0.2, any::<prop::sample::Index>()),
    ) {
        let mut config = config(SEVERAL[versions]);
        config.alpn_protocols = alpn.into_iter().map(String::into_bytes).collect();
        let mut bytes = hello(config, "a.some-name.example");
        for (place, byte) in changes {
            let place = place.index(bytes.len());
            bytes[place] = byte;
        }
        if let Some(cut) = cut {
            bytes.truncate(cut.index(bytes.len()));
        }
        match (ours(&bytes), theirs(&bytes)) {
            (Ok(Some(ours)), Ok(Some(theirs))) => prop_assert_eq!(ours, theirs),
            (Ok(None), Ok(None)) | (_, Err(())) => {}
            // The hello is whole before its record is, which rustls waits for.
            (Ok(Some(_)), Ok(None)) => prop_assert!(!ends_with_a_record(&bytes)),
            // What is wrong is refused before the hello is whole.
            (Err(_), Ok(None)) => {}
            // rustls takes a name that is none for no name at all, and reads the first of
            // several; there is one name in a hello (RFC 6066 section 3).
            (Err(HelloError::Name), Ok(Some(_))) => {}
            (ours, theirs) => prop_assert!(false, "{ours:?}, and rustls {theirs:?}"),
        }
    }
}

#[test]
fn a_version_says_nothing() {
    // RFC 8446 section 5.1: the version of a record must be ignored.
    let mut bytes = hello(config(SEVERAL[0]), "a.example");
    assert_eq!(u16::from(ProtocolVersion::TLSv1_0).to_be_bytes(), bytes[1..3]);
    bytes[2] = 9;
    assert!(ours(&bytes).unwrap().is_some());
}
