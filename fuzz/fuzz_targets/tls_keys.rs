//! Any bytes to the process that has the private keys: each message gets one answer or none,
//! none of them shows the key, and the process ends in order.
#![no_main]

use std::io::{Read as _, Write as _};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::OnceLock;

/// A file with a key, and the part of it that is secret.
static KEY: OnceLock<(PathBuf, Vec<u8>)> = OnceLock::new();

fn key() -> (PathBuf, Vec<u8>) {
    let own = rcgen::generate_simple_self_signed(vec!["a.example".to_owned()]).unwrap();
    let path = tempfile::tempdir().unwrap().keep().join("a.key");
    std::fs::write(&path, own.signing_key.serialize_pem()).unwrap();
    // PKCS #8 of a key on P-256 (RFC 5915): the secret has 32 bytes behind 36 of others.
    let der = own.signing_key.serialize_der();
    (path, der[36..68].to_vec())
}

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let (path, secret) = KEY.get_or_init(key);
    let (mut own, server) = UnixStream::pair().unwrap();
    let mut bytes = Vec::new();
    // The socket has room for as many answers, which are read at the end.
    for piece in data.chunks(20).take(100) {
        let (kind, rest) = (piece[0] % 4, &piece[1..]);
        let message = match kind {
            // Other files than this one are none of a fuzzer's business.
            0 => [&[1][..], path.as_os_str().as_encoded_bytes()].concat(),
            1 => [&[2, 0, 0, 0, 0, 0, 0, 0, 1][..], rest].concat(),
            2 => [&[3, 0, 0, 0, 0, 0, 0, 0][..], rest].concat(),
            _ => rest.iter().map(|byte| if *byte == 1 { 9 } else { *byte }).collect(),
        };
        bytes.extend((message.len() as u32).to_be_bytes());
        bytes.extend(message);
    }
    // The last message may be cut short.
    let cut = data.first().map_or(0, |byte| usize::from(byte / 64));
    bytes.truncate(bytes.len().saturating_sub(cut));
    own.write_all(&bytes).unwrap();
    own.shutdown(Shutdown::Write).unwrap();
    let ended = tls::serve_keys(&server);
    assert!(ended.is_ok() || cut > 0, "{ended:?}");
    drop(server);
    let mut answers = Vec::new();
    own.read_to_end(&mut answers).unwrap();
    assert!(!answers.windows(secret.len()).any(|part| part == secret), "the key was shown");
});
