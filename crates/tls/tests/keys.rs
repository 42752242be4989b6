//! Handshakes whose keys somebody else has, who may go away.
#![allow(clippy::unwrap_used)]
use std::net::Shutdown;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex};

use rcgen::{CertificateParams, KeyPair};
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, RootCertStore};
use tls::{Certificate, Handshake, Progress, ServerSettings, TicketKey, Tls, Version};

/// Whether a client of `config` gets through.
fn shake(tls: &Tls, config: &Arc<ClientConfig>) -> Result<(), String> {
    let name = ServerName::try_from("www.example.org").unwrap();
    let mut client = ClientConnection::new(Arc::clone(config), name).unwrap();
    let mut handshake = Handshake::new(tls).unwrap();
    loop {
        let (mut bytes, mut out) = (Vec::new(), Vec::new());
        while client.wants_write() {
            client.write_tls(&mut bytes).unwrap();
        }
        match handshake.feed(&bytes, &mut out) {
            Ok(Progress::More(again)) => handshake = again,
            Ok(Progress::Established(_)) => return Ok(()),
            Err(error) => return Err(error.to_string()),
        }
        let mut out = &out[..];
        while !out.is_empty() {
            client.read_tls(&mut out).unwrap();
            client.process_new_packets().map_err(|error| error.to_string())?;
        }
    }
}

/// The keys are with a thread here, as they are with a process in `hnlb run`. Where they are
/// is one thing for the whole process, so this is one test.
#[test]
fn keys_are_asked_for_signatures_and_read_again_when_their_keeper_has_gone() {
    let links = Arc::new(Mutex::new(Vec::new()));
    let kept = Arc::clone(&links);
    tls::keep_keys_in(move || {
        let (ours, theirs) = UnixStream::pair()?;
        kept.lock().unwrap().push(theirs.try_clone()?);
        std::thread::spawn(move || tls::serve_keys(&theirs));
        Ok(ours)
    });
    let dir = tempfile::tempdir().unwrap();
    let put = |name: &str, text: &str| {
        let path = dir.path().join(name);
        std::fs::write(&path, text).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
        path
    };
    let key = KeyPair::generate().unwrap();
    let params = CertificateParams::new(vec!["www.example.org".to_owned()]).unwrap();
    let signed = params.self_signed(&key).unwrap();
    let at = put("key", &key.serialize_pem());
    let certificate = Certificate {
        names: Vec::new(),
        chain: put("chain", &signed.pem()),
        key: at.clone(),
        ocsp: None,
    };
    let settings = |certificate: Certificate| ServerSettings {
        certificates: vec![certificate],
        alpn: Vec::new(),
        oldest: Version::Tls12,
        tickets: TicketKey::new([1; 32]),
        client_ca: None,
        client_crl: None,
        client_required: false,
    };
    let mut roots = RootCertStore::empty();
    roots.add(signed.der().clone()).unwrap();
    let config = |versions: &[&'static rustls::SupportedProtocolVersion]| {
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let mut config = ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(versions)
            .unwrap()
            .with_root_certificates(roots.clone())
            .with_no_client_auth();
        config.resumption = rustls::client::Resumption::disabled();
        Arc::new(config)
    };
    let both = [config(&[&rustls::version::TLS13]), config(&[&rustls::version::TLS12])];
    let tls = Tls::new(settings(certificate.clone())).unwrap();
    for config in &both {
        shake(&tls, config).unwrap();
    }
    let started = || links.lock().unwrap().len();
    let end = || links.lock().unwrap().last().unwrap().shutdown(Shutdown::Both).unwrap();
    assert_eq!(started(), 1);
    for number in 2..4 {
        end();
        shake(&tls, &both[0]).unwrap();
        assert_eq!(started(), number);
    }
    // What is wrong with a file is told as without the other process.
    let garbage = Certificate { key: put("garbage", "no key"), ..certificate.clone() };
    let error = Tls::new(settings(garbage)).unwrap_err().to_string();
    assert!(error.contains("garbage: no private key in PEM"), "{error}");
    let other = KeyPair::generate().unwrap().serialize_pem();
    let swapped = Certificate { key: put("other", &other), ..certificate };
    let error = Tls::new(settings(swapped)).unwrap_err().to_string();
    assert!(error.contains("is not the private key of"), "{error}");
    // The keeper that comes next finds another key in the file, which nobody has checked.
    std::fs::write(&at, &other).unwrap();
    end();
    let error = shake(&tls, &both[0]).unwrap_err();
    assert!(error.contains("another key than before"), "{error}");
    std::fs::remove_file(&at).unwrap();
    assert!(shake(&tls, &both[0]).unwrap_err().contains("No such file"));
}
