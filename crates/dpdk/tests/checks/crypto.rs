use aes_gcm::aead::{Aead as _, KeyInit as _, Payload};
use dpdk::crypto::{Aead, CryptoDevice, CryptoError, MOST_RECORDS, Nonce, Operation};
use dpdk::crypto::{RECORD_HEADER, RECORD_TAG};
use dpdk::{Batch, Mbuf, Mempool};
use packet::PacketBuf;

const DRIVERS: [&str; 2] = ["crypto_openssl", "crypto_aesni_mb"];
const HEADER: [u8; RECORD_HEADER] = [23, 3, 3, 0, 0];

/// Ciphertext and tag by RustCrypto.
fn expected(aead: Aead, key: &[u8], nonce: &Nonce, text: &[u8]) -> Vec<u8> {
    let payload = Payload { msg: text, aad: &HEADER };
    match (aead, key.len()) {
        (Aead::AesGcm, 16) => {
            aes_gcm::Aes128Gcm::new_from_slice(key).unwrap().encrypt(nonce.into(), payload)
        }
        (Aead::AesGcm, _) => {
            aes_gcm::Aes256Gcm::new_from_slice(key).unwrap().encrypt(nonce.into(), payload)
        }
        _ => chacha20poly1305::ChaCha20Poly1305::new_from_slice(key)
            .unwrap()
            .encrypt(nonce.into(), payload),
    }
    .unwrap()
}

fn record(pool: &Mempool, text: &[u8]) -> Mbuf {
    let bytes = [&HEADER, text, &[0; RECORD_TAG]].concat();
    Mbuf::copy_from(pool, &bytes).unwrap()
}

fn nonce(number: usize) -> Nonce {
    std::array::from_fn(|at| (number * 7 + at * 31) as u8)
}

/// The devices that this machine's DPDK has.
fn devices() -> Vec<CryptoDevice> {
    let started = DRIVERS.map(CryptoDevice::start);
    started.into_iter().filter_map(Result::ok).collect()
}

pub(crate) fn against_another(pool: &Mempool) {
    let mut devices = devices();
    assert!(!devices.is_empty(), "DPDK comes with crypto_openssl");
    for device in &mut devices {
        for (aead, key) in [(Aead::AesGcm, 16), (Aead::AesGcm, 32), (Aead::ChaCha20Poly1305, 32)] {
            let key: Vec<u8> = (0..key).map(|at: u8| at.wrapping_mul(11)).collect();
            let Ok(seal) = device.session(aead, Operation::Seal, &key) else {
                assert_eq!(aead, Aead::ChaCha20Poly1305, "{} has AES-GCM", device.name());
                continue;
            };
            let open = device.session(aead, Operation::Open, &key).unwrap();
            let lengths = [1, 15, 16, 17, 64, 255, 1024, 1500, 1900];
            let texts = lengths.map(|len| (0..len).map(|at| at as u8).collect::<Vec<u8>>());
            let nonces: Vec<Nonce> = (0..texts.len()).map(nonce).collect();
            let mut records = Batch::<MOST_RECORDS>::new();
            for text in &texts {
                records.push(record(pool, text)).unwrap();
            }
            device.process(&seal, &mut records, &nonces).unwrap();
            for ((record, text), nonce) in records.iter().zip(&texts).zip(&nonces) {
                let sealed = record.bytes().get(RECORD_HEADER..).unwrap();
                assert_eq!(sealed, expected(aead, &key, nonce, text), "{aead:?} {}", text.len());
            }
            device.process(&open, &mut records, &nonces).unwrap();
            for (record, text) in records.iter().zip(&texts) {
                let end = RECORD_HEADER + text.len();
                assert_eq!(record.bytes().get(RECORD_HEADER..end).unwrap(), text);
            }
        }
    }
}

pub(crate) fn refusals(pool: &Mempool) {
    assert!(matches!(CryptoDevice::start("crypto_none"), Err(CryptoError::Device { .. })));
    let mut device = CryptoDevice::start("crypto_openssl").unwrap();
    let other = CryptoDevice::start("crypto_openssl").unwrap();
    let key = [7; 16];
    let wrong = device.session(Aead::AesGcm, Operation::Seal, &key[..5]);
    assert!(matches!(wrong, Err(CryptoError::Session { key: 5, .. })), "{wrong:?}");
    let seal = device.session(Aead::AesGcm, Operation::Seal, &key).unwrap();
    let open = device.session(Aead::AesGcm, Operation::Open, &key).unwrap();
    let foreign = other.session(Aead::AesGcm, Operation::Seal, &key).unwrap();

    let mut records = Batch::<64>::new();
    records.push(record(pool, b"text")).unwrap();
    assert_eq!(device.process(&foreign, &mut records, &[nonce(0)]), Err(CryptoError::Foreign));
    let none = CryptoError::Count { records: 1, nonces: 0 };
    assert_eq!(device.process(&seal, &mut records, &[]), Err(none));
    device.process(&seal, &mut records, &[nonce(0)]).unwrap();
    // Another nonce, a changed header, a changed tag: each alone is noticed.
    for forged in 0..3 {
        let mut batch = Batch::<64>::new();
        let mut copy = records.first().unwrap().bytes().to_vec();
        let mut nonce = nonce(0);
        match forged {
            0 => nonce[11] ^= 1,
            1 => copy[4] ^= 1,
            _ => *copy.last_mut().unwrap() ^= 1,
        }
        batch.push(Mbuf::copy_from(pool, &copy).unwrap()).unwrap();
        assert_eq!(device.process(&open, &mut batch, &[nonce]), Err(CryptoError::Failed(1)));
    }
    device.process(&open, &mut records, &[nonce(0)]).unwrap();

    records.push(Mbuf::copy_from(pool, &[0; RECORD_HEADER + RECORD_TAG - 1]).unwrap()).unwrap();
    let nonces = [nonce(0), nonce(1)];
    assert_eq!(device.process(&seal, &mut records, &nonces), Err(CryptoError::Record(1)));
    records.clear();
    for _ in 0..=MOST_RECORDS {
        records.push(record(pool, b"")).unwrap();
    }
    let nonces = vec![nonce(0); MOST_RECORDS + 1];
    assert!(matches!(
        device.process(&seal, &mut records, &nonces),
        Err(CryptoError::Count { records: 33, nonces: 33 })
    ));
}
