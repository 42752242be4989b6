//! Any bytes as a client's certificate, of which fields of a header are made.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    if let Some(found) = tls::ClientCertificate::read(data) {
        for text in [&found.subject, &found.serial, &found.fingerprint] {
            assert!(text.bytes().all(|byte| (b' '..=b'~').contains(&byte)), "{text:?}");
        }
    }
});
