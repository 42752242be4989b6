//! Any bytes to a handshake, in pieces of any length: an error or a wish for more, and
//! never an established connection without its finish.
#![no_main]

use std::os::unix::fs::PermissionsExt;
use std::sync::OnceLock;

use tls::{Certificate, Handshake, Progress, Record, ServerSettings, TicketKey, Tls, Version};

static TLS: OnceLock<Tls> = OnceLock::new();

fn tls() -> Tls {
    let own = rcgen::generate_simple_self_signed(vec!["a.example".to_owned()]).unwrap();
    let dir = tempfile::tempdir().unwrap();
    let (chain, key) = (dir.path().join("a.crt"), dir.path().join("a.key"));
    std::fs::write(&chain, own.cert.pem()).unwrap();
    std::fs::write(&key, own.signing_key.serialize_pem()).unwrap();
    std::fs::set_permissions(&key, std::fs::Permissions::from_mode(0o600)).unwrap();
    Tls::new(ServerSettings {
        certificates: vec![Certificate { names: Vec::new(), chain, key, ocsp: None }],
        alpn: vec!["http/1.1".to_owned()],
        oldest: Version::Tls12,
        tickets: TicketKey::new([1; 32]),
        client_ca: None,
        client_crl: None,
        client_required: false,
    })
    .unwrap()
}

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    for version in [Version::Tls12, Version::Tls13] {
        if let Ok(Some(record)) = Record::peek(data, version) {
            assert!(record.len > 5 && record.len <= 5 + (1 << 14) + 2048);
        }
    }
    let Some((&piece, data)) = data.split_first() else { return };
    let mut handshake = Handshake::new(TLS.get_or_init(tls)).unwrap();
    let mut out = Vec::new();
    for piece in data.chunks(usize::from(piece) + 1) {
        match handshake.feed(piece, &mut out) {
            Ok(Progress::More(more)) => handshake = more,
            Ok(Progress::Established(_)) => panic!("established by chance"),
            Err(_) => return,
        }
    }
});
