//! A connection that was handed over, and a client or somebody between who sends anything:
//! nothing but the client's own bytes comes out, in order and once.
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::sync::{Arc, OnceLock};

use rustls::pki_types::ServerName;
use rustls::pki_types::pem::PemObject as _;
use rustls::{ClientConfig, ClientConnection, RootCertStore};
use tls::{
    Certificate, Established, Handshake, Incoming, Progress, ServerSettings, Session, SessionError,
    TicketKey, Tls, Version,
};

/// The service, and its clients of TLS 1.2 and 1.3.
static ENDS: OnceLock<(Tls, [Arc<ClientConfig>; 2])> = OnceLock::new();

fn ends() -> (Tls, [Arc<ClientConfig>; 2]) {
    let own = rcgen::generate_simple_self_signed(vec!["a.example".to_owned()]).unwrap();
    let dir = tempfile::tempdir().unwrap();
    let (chain, key) = (dir.path().join("a.crt"), dir.path().join("a.key"));
    std::fs::write(&chain, own.cert.pem()).unwrap();
    std::fs::write(&key, own.signing_key.serialize_pem()).unwrap();
    std::fs::set_permissions(&key, std::fs::Permissions::from_mode(0o600)).unwrap();
    let tls = Tls::new(ServerSettings {
        certificates: vec![Certificate { names: Vec::new(), chain, key, ocsp: None }],
        alpn: Vec::new(),
        oldest: Version::Tls12,
        tickets: TicketKey::new([1; 32]),
        client_ca: None,
        client_crl: None,
        client_required: false,
    })
    .unwrap();
    let mut roots = RootCertStore::empty();
    let pem = own.cert.pem();
    roots.add(rustls::pki_types::CertificateDer::from_pem_slice(pem.as_bytes()).unwrap()).unwrap();
    let clients = [&rustls::version::TLS12, &rustls::version::TLS13].map(|version| {
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let config = ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(&[version])
            .unwrap()
            .with_root_certificates(roots.clone())
            .with_no_client_auth();
        Arc::new(config)
    });
    (tls, clients)
}

fn sent(client: &mut ClientConnection) -> Vec<u8> {
    let mut bytes = Vec::new();
    while client.wants_write() {
        client.write_tls(&mut bytes).unwrap();
    }
    bytes
}

fn establish(tls: &Tls, client: &mut ClientConnection) -> Established {
    let mut handshake = Handshake::new(tls).unwrap();
    loop {
        let mut out = Vec::new();
        let progress = handshake.feed(&sent(client), &mut out).unwrap();
        let mut rest = &out[..];
        while !rest.is_empty() {
            client.read_tls(&mut rest).unwrap();
            client.process_new_packets().unwrap();
        }
        match progress {
            Progress::More(more) => handshake = more,
            Progress::Established(own) => return *own,
        }
    }
}

/// Each two bytes of `data` are something that the client, or somebody between, does.
#[allow(unreachable_pub, reason = "the fuzz target calls it, too")]
pub fn check(data: &[u8]) {
    let (tls, clients) = ENDS.get_or_init(ends);
    let Some((&which, steps)) = data.split_first() else { return };
    let config = Arc::clone(&clients[usize::from(which % 2)]);
    let name = ServerName::try_from("a.example").unwrap();
    let mut client = ClientConnection::new(config, name).unwrap();
    let Established { secrets, mut successor, .. } = establish(tls, &mut client);
    let mut session = Session::new(&secrets).unwrap();
    let (mut wire, mut written, mut intact) = (Vec::new(), Vec::new(), true);
    for step in steps.chunks_exact(2) {
        let value = usize::from(step[1]);
        match step[0] % 8 {
            0..=2 => {
                let text: Vec<u8> = (0..value * 3).map(|at| (at + written.len()) as u8).collect();
                client.writer().write_all(&text).unwrap();
                wire.extend(sent(&mut client));
                written.extend(text);
            }
            3 if client.refresh_traffic_keys().is_ok() => wire.extend(sent(&mut client)),
            4 if !wire.is_empty() => {
                let at = value * 7 % wire.len();
                wire[at] ^= 1 << (value % 8);
                intact = false;
            }
            5 => (wire, intact) = ([&wire[..], &[step[1]; 9]].concat(), false),
            6 if wire.len() > value => {
                wire.drain(..value);
                intact &= value == 0;
            }
            7 => wire = [wire.clone(), wire].concat(),
            _ => {}
        }
        intact &= step[0] % 8 != 7 || wire.is_empty();
    }
    let (mut got, mut rest) = (Vec::new(), &mut wire[..]);
    while let Ok(Some(record)) = session.peek(rest) {
        if rest.len() < record.len {
            break;
        }
        let (one, behind) = std::mem::take(&mut rest).split_at_mut(record.len);
        rest = behind;
        match session.open(one) {
            Ok(Incoming::Data(place)) => got.extend_from_slice(&one[place]),
            Ok(Incoming::KeyUpdate { .. }) => {
                session.set_receive(&successor.next_receive().unwrap()).unwrap();
            }
            Ok(Incoming::Nothing) => {}
            Ok(Incoming::Close) => panic!("nobody has closed"),
            // So many changes of keys and nothing else are refused.
            Err(SessionError::Idle) => return,
            Err(error) => {
                assert!(!intact, "{error}");
                break;
            }
        }
    }
    assert!(written.starts_with(&got), "bytes that the client has not sent");
    assert!(!intact || got == written, "bytes of the client's are missing");
}
