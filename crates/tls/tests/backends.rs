//! TLS towards backends against rustls' own server: who is believed.
#![allow(clippy::unwrap_used, clippy::panic)]
use std::io::{Read, Write};
use std::path::PathBuf;
use std::sync::Arc;

use aws_lc_rs::digest::{SHA256, digest};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustls::crypto::aws_lc_rs::default_provider;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ServerConfig, ServerConnection};
use tls::{BackendSettings, BackendTls, BackendTlsError, Fingerprint};

/// A backend's certificate, and the authority of it.
struct Backend {
    config: Arc<ServerConfig>,
    ca: PathBuf,
    pin: Fingerprint,
    _dir: tempfile::TempDir,
}

fn backend(names: &[&str]) -> Backend {
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
    let key = KeyPair::generate().unwrap();
    let names: Vec<String> = names.iter().map(ToString::to_string).collect();
    let signed = CertificateParams::new(names).unwrap().signed_by(&key, &issuer).unwrap();
    let dir = tempfile::tempdir().unwrap();
    let ca = dir.path().join("ca.crt");
    std::fs::write(&ca, issuer.pem()).unwrap();
    let der: CertificateDer<'static> = signed.der().clone();
    let pin = digest(&SHA256, &der).as_ref().try_into().unwrap();
    let key = PrivateKeyDer::try_from(key.serialize_der()).unwrap();
    let mut config = ServerConfig::builder_with_provider(Arc::new(default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![der], key)
        .unwrap();
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Backend { config: Arc::new(config), ca, pin, _dir: dir }
}

/// What the backend gets of "ask", and we of its "answer"; or why it is not believed.
fn talk(backend: &Backend, settings: &BackendSettings) -> Result<(String, String), String> {
    let tls = BackendTls::new(settings).map_err(|error| error.to_string())?;
    let mut session = tls.connect("192.0.2.7".parse().unwrap(), Some("http/1.1")).unwrap();
    let mut server = ServerConnection::new(Arc::clone(&backend.config)).unwrap();
    let (mut sealed, mut plain, mut asked) = (Vec::new(), Vec::new(), Vec::new());
    let mut has_asked = false;
    for _ in 0..20 {
        if !session.is_handshaking() && !has_asked {
            session.write(b"ask");
            has_asked = true;
        }
        session.seal(&mut sealed);
        let taken = server.read_tls(&mut &sealed[..]).unwrap();
        sealed.drain(..taken);
        let state = server.process_new_packets().map_err(|error| format!("backend: {error}"))?;
        let mut got = vec![0; state.plaintext_bytes_to_read()];
        if server.reader().read(&mut got).is_ok() && !got.is_empty() {
            asked.extend(got);
            server.writer().write_all(b"answer").unwrap();
            server.send_close_notify();
        }
        let mut out = Vec::new();
        while server.wants_write() {
            server.write_tls(&mut out).unwrap();
        }
        // In pieces, as TCP may cut them.
        for piece in out.chunks(7) {
            let mut rest = piece;
            while !rest.is_empty() {
                let taken = session.open(rest, &mut plain).map_err(|error| error.to_string())?;
                rest = &rest[taken..];
            }
        }
    }
    assert_eq!(server.alpn_protocol(), Some(&b"http/1.1"[..]));
    assert!(session.has_closed());
    let text = |bytes| String::from_utf8(bytes).unwrap();
    Ok((text(asked), text(plain)))
}

#[test]
fn an_authority_or_a_pin_is_believed() {
    let own = backend(&["backend.lab"]);
    let other = backend(&["backend.lab"]);
    let by_address = backend(&["192.0.2.7"]);
    let believed = |of: &Backend, ca: Option<&Backend>, pins: &[&Backend], name: Option<&str>| {
        let settings = BackendSettings {
            ca: ca.map(|own| own.ca.clone()),
            pins: pins.iter().map(|own| own.pin).collect(),
            name: name.map(str::to_owned),
        };
        talk(of, &settings)
    };
    let fine = Ok(("ask".to_owned(), "answer".to_owned()));
    let name = Some("backend.lab");
    assert_eq!(believed(&own, Some(&own), &[], name), fine);
    assert_eq!(believed(&own, None, &[&own], name), fine);
    assert_eq!(believed(&own, None, &[&other, &own], None), fine);
    assert_eq!(believed(&own, Some(&own), &[&own], name), fine);
    assert_eq!(believed(&by_address, Some(&by_address), &[], None), fine);
    for (found, why) in [
        // Both authorities have the same name.
        (believed(&own, Some(&other), &[], name), "BadSignature"),
        (believed(&own, Some(&own), &[], Some("other.lab")), "not valid for name"),
        (believed(&own, Some(&own), &[], None), "not valid for"),
        (believed(&own, None, &[&other], name), "ApplicationVerificationFailure"),
        (believed(&own, Some(&own), &[&other], name), "ApplicationVerificationFailure"),
    ] {
        let error = found.unwrap_err();
        assert!(error.contains(why), "{error}, not {why}");
    }
}

#[test]
fn what_cannot_be_believed_is_refused() {
    let none = BackendSettings { ca: None, pins: Vec::new(), name: None };
    assert!(matches!(BackendTls::new(&none), Err(BackendTlsError::Nothing)));
    let missing = BackendSettings { ca: Some("/nowhere".into()), ..none.clone() };
    assert!(matches!(BackendTls::new(&missing), Err(BackendTlsError::Ca { .. })));
    let name = BackendSettings { pins: vec![[0; 32]], name: Some("a b".to_owned()), ..none };
    assert!(matches!(BackendTls::new(&name), Err(BackendTlsError::Name(_))));
}

#[test]
fn a_backend_without_tls_is_no_backend() {
    let settings = BackendSettings { ca: None, pins: vec![[0; 32]], name: None };
    let tls = BackendTls::new(&settings).unwrap();
    let mut session = tls.connect("192.0.2.7".parse().unwrap(), Some("http/1.1")).unwrap();
    assert!(session.open(b"HTTP/1.1 400 Bad Request\r\n\r\n", &mut Vec::new()).is_err());
}
