//! The pool's bounds and its threads.
#![allow(clippy::unwrap_used)]
use std::net::IpAddr;
use std::os::unix::fs::PermissionsExt;
use std::time::{Duration, Instant};

use tls::{
    Certificate, Finished, Handshake, Pool, PoolSettings, Progress, Refused, ServerSettings,
    Started, TicketKey, Tls, Version,
};

fn tls(dir: &std::path::Path) -> Tls {
    let own = rcgen::generate_simple_self_signed(vec!["a.example".to_owned()]).unwrap();
    let (chain, key) = (dir.join("a.crt"), dir.join("a.key"));
    std::fs::write(&chain, own.cert.pem()).unwrap();
    std::fs::write(&key, own.signing_key.serialize_pem()).unwrap();
    std::fs::set_permissions(&key, std::fs::Permissions::from_mode(0o600)).unwrap();
    Tls::new(ServerSettings {
        certificates: vec![Certificate { names: Vec::new(), chain, key, ocsp: None }],
        alpn: Vec::new(),
        oldest: Version::Tls12,
        tickets: TicketKey::random().unwrap(),
        client_ca: None,
        client_crl: None,
        client_required: false,
    })
    .unwrap()
}

fn started(tls: &Tls, connection: u64, service: u32, client: &str, bytes: &[u8]) -> Started {
    let client: IpAddr = client.parse().unwrap();
    let handshake = Handshake::new(tls).unwrap();
    Started { connection, service, client, handshake, bytes: bytes.to_vec() }
}

fn wait(pool: &Pool) -> Finished {
    let deadline = Instant::now() + Duration::from_secs(60);
    loop {
        if let Some(finished) = pool.finished() {
            return finished;
        }
        assert!(Instant::now() < deadline, "nothing comes back");
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn handshakes_come_back_with_what_the_client_is_told() {
    let dir = tempfile::tempdir().unwrap();
    let tls = tls(dir.path());
    let pool = Pool::new(PoolSettings::default()).unwrap();
    pool.start(started(&tls, 1, 0, "192.0.2.1", b"")).unwrap();
    let Finished { connection, out, progress } = wait(&pool);
    assert_eq!((connection, out.len()), (1, 0));
    let Ok(Progress::More(handshake)) = progress else { unreachable!("no hello yet") };
    let client = "192.0.2.1".parse().unwrap();
    // A hello of one byte.
    let bytes = b"\x16\x03\x01\x00\x05\x01\x00\x00\x01\x00".to_vec();
    pool.start(Started { connection: 1, service: 0, client, handshake, bytes }).unwrap();
    let Finished { out, progress, .. } = wait(&pool);
    assert!(progress.is_err());
    assert_eq!(out.first(), Some(&21), "an alert: {progress:?}");
}

/// The threads are held up by nothing but their work, so what waits is bounded with a
/// pool whose only thread has much to do.
#[test]
fn a_flood_of_one_network_leaves_room_for_others() {
    let dir = tempfile::tempdir().unwrap();
    let tls = tls(dir.path());
    let settings = PoolSettings { threads: 1, waiting: 6, by_network: 2 };
    let pool = Pool::new(settings).unwrap();
    // 60 kB of a hello that goes on keep the thread busy for a while.
    let mut hello = vec![22, 3, 1, 0x40, 0, 1, 0xff, 0xff, 0xff];
    hello.resize(60_000, 0);
    let mut refused = Vec::new();
    for number in 0..2000 {
        let client = format!("192.0.2.{}", number % 250);
        if let Err((why, _)) = pool.start(started(&tls, number, 0, &client, &hello)) {
            refused.push(why);
        }
        assert!(pool.waiting() <= 2);
    }
    assert!(!refused.is_empty() && refused.iter().all(|why| *why == Refused::Network));
    let other = pool.start(started(&tls, 9999, 0, "198.51.100.1", b""));
    assert!(other.is_ok(), "another network has room");
    let service = pool.start(started(&tls, 10_000, 1, "192.0.2.1", b""));
    assert!(service.is_ok(), "another service has room");
}
