//! QUIC connection ids: the draft's vectors, and an encoder of our own that works on
//! half bytes and so knows no odd lengths.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests may")]
use crate::common;

use aes::Aes128;
use aes::cipher::{BlockEncrypt, KeyInit};
use common::{backend, flow, spec, table};
use flow::BackendId;
use proptest::prelude::*;
use service::{BackendSpec, Key128, QuicDecoder, QuicIds, ServerId, ServiceSpec, ServiceTable};
use wire::Transport::Udp;

fn bytes(text: &str) -> Vec<u8> {
    (0..text.len())
        .step_by(2)
        .map(|at| u8::from_str_radix(&text[at..at + 2], 16).unwrap())
        .collect()
}

fn ids(rotation: u8, lengths: (usize, usize), key: Option<[u8; 16]>) -> QuicIds {
    let (server_id_length, nonce_length) = (lengths.0 as u8, lengths.1 as u8);
    QuicIds { rotation, server_id_length, nonce_length, key: key.map(Key128) }
}

/// Appendix B of draft-ietf-quic-load-balancers-21 and the example of its section
/// 5.4.2. (The second vector in the clear there has its digits out of place.)
#[test]
fn the_drafts_vectors_are_decoded() {
    let key = Some("8f95f09245765f80256934e50c66207f");
    for (key, id, nonce, connection_id) in [
        (None, "c4605e", "4504cc4f", "07c4605e4504cc4f"),
        (key, "ed793a", "ee080dbf", "0720b1d07b359d3c"),
        (key, "ed793a51d49b8f5fab65", "ee080dbf48", "2fcc381bc74cb4fbad2823a3d1f8fed2"),
        (key, "ed793a51d49b8f5f", "ee080dbf48c0d1e5", "504dd2d05a7b0de9b2b9907afb5ecf8cc3"),
        (key, "ed793a51d49b8f5fab", "ee080dbf48c0d1e55d", "125779c9cc86beb3a3a4a3ca96fce4bfe0cdbc"),
        (Some("fdf726a9893ec05c0632d3956680baf0"), "31441a", "9c69c275", "0767947d29be054a"),
    ] {
        let key = key.map(|key| bytes(key).try_into().unwrap());
        let ids = ids(0, (id.len() / 2, nonce.len() / 2), key);
        let decoder = QuicDecoder::from(&ids);
        let found = decoder.server_id(&bytes(connection_id)).unwrap();
        assert_eq!(found.to_string(), id);
        // What a server adds behind it, and a packet's rest, change nothing.
        let mut longer = bytes(connection_id);
        longer.extend([0x55; 40]);
        assert_eq!(decoder.server_id(&longer), Some(found));
        longer.truncate(ids.server_id_length as usize + ids.nonce_length as usize);
        assert_eq!(decoder.server_id(&longer), None);
    }
}

/// A connection id as a server makes it.
fn encode(ids: &QuicIds, id: &[u8], nonce: &[u8]) -> Vec<u8> {
    let first = ids.rotation << 5 | (id.len() + nonce.len()) as u8;
    let plain = [id, nonce].concat();
    let Some(key) = ids.key else { return [&[first], &plain[..]].concat() };
    let cipher = Aes128::new(&key.0.into());
    let encrypt = |block: [u8; 16]| -> [u8; 16] {
        let mut block = block.into();
        cipher.encrypt_block(&mut block);
        block.into()
    };
    if let Ok(block) = <[u8; 16]>::try_from(&plain[..]) {
        return [&[first], &encrypt(block)[..]].concat();
    }
    // Half bytes, of which each side has the same number.
    let digits: Vec<u8> = plain.iter().flat_map(|byte| [byte >> 4, byte & 15]).collect();
    let (mut left, mut right) = (digits[..plain.len()].to_vec(), digits[plain.len()..].to_vec());
    let odd = plain.len() % 2 == 1;
    for pass in 1..=4_u8 {
        let (from, to) = if pass % 2 == 1 { (&left, &mut right) } else { (&right, &mut left) };
        // An odd half begins (right) or ends (left) with an empty half byte.
        let is_right = pass % 2 == 0;
        let mut padded = from.clone();
        if odd {
            padded.insert(if is_right { 0 } else { padded.len() }, 0);
        }
        let mut block = [0; 16];
        padded.chunks(2).zip(&mut block).for_each(|(two, byte)| *byte = two[0] << 4 | two[1]);
        (block[14], block[15]) = (plain.len() as u8, pass);
        let mask = encrypt(block);
        let mask = mask.iter().flat_map(|byte| [byte >> 4, byte & 15]);
        let skipped = usize::from(odd && !is_right);
        to.iter_mut().zip(mask.skip(skipped)).for_each(|(digit, mask)| *digit ^= mask);
    }
    left.extend(right);
    let cipher = left.chunks(2).map(|two| two[0] << 4 | two[1]);
    std::iter::once(first).chain(cipher).collect()
}

fn lengths() -> impl Strategy<Value = (usize, usize)> {
    (1_usize..=15).prop_flat_map(|id| (Just(id), 4..=19 - id))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]
    #[test]
    fn what_a_server_writes_is_read(
        lengths in lengths(),
        key: Option<[u8; 16]>,
        id: [u8; 15],
        nonce: [u8; 18],
        rotation in 0_u8..7,
        behind in proptest::collection::vec(any::<u8>(), 0..30),
    ) {
        let ids = ids(rotation, lengths, key);
        let (id, nonce) = (&id[..lengths.0], &nonce[..lengths.1]);
        let mut connection_id = encode(&ids, id, nonce);
        prop_assert_eq!(connection_id.len(), 1 + lengths.0 + lengths.1);
        connection_id.extend(behind);
        prop_assert_eq!(QuicDecoder::from(&ids).server_id(&connection_id), ServerId::new(id));
    }

    #[test]
    fn server_ids_are_written_as_they_are_read(id in proptest::collection::vec(any::<u8>(), 0..18)) {
        let text: String = id.iter().map(|byte| format!("{byte:02x}")).collect();
        let read = text.parse::<ServerId>().ok();
        prop_assert_eq!(read, ServerId::new(&id));
        prop_assert_eq!(read.is_some(), (1..=15).contains(&id.len()));
        prop_assert_eq!(read.map_or(text.clone(), |id| id.to_string()), text);
    }

    #[test]
    fn arbitrary_packets_name_no_backend_wrongly(packet in proptest::collection::vec(any::<u8>(), 0..60)) {
        let table = quic();
        let named = table.services()[0].named_by_connection_id(&packet);
        // In the clear: what names a backend has its id at its place.
        if let Some(backend) = named {
            let id = if packet[0] & 0x80 == 0 { &packet[1..] } else { &packet[6..] };
            prop_assert_eq!((id[0] >> 5, usize::from(id[1])), (0, 11 + usize::from(backend.0)));
        }
    }
}

/// Two backends, 11 and 12; ids in the clear with rotation 0, encrypted with 1.
fn quic() -> ServiceTable {
    let one = |n: u8| BackendSpec {
        backup: false,
        server_ids: vec![ServerId::new(&[n]).unwrap(), ServerId::new(&[n, n]).unwrap()],
        ..backend(&format!("10.72.0.{n}"), None, u16::from(n != 12))
    };
    let backends = vec![one(11), one(12)];
    let quic = vec![ids(0, (1, 4), None), ids(1, (2, 6), Some([9; 16]))];
    table(&[ServiceSpec { quic, backends, ..spec("10.71.0.100", Some(443), Udp) }])
}

#[test]
fn short_headers_and_handshakes_name_the_backend() {
    let table = quic();
    let service = &table.services()[0];
    let named = |packet: &[u8]| service.named_by_connection_id(packet);
    let second = Some(BackendId(1));
    let plain = encode(&ids(0, (1, 4), None), &[12], &[1, 2, 3, 4]);
    let sealed = encode(&ids(1, (2, 6), Some([9; 16])), &[12, 12], &[1; 6]);
    for id in [&plain, &sealed] {
        // All bits but the first may be anything.
        for first in [0x40, 0x00, 0x7f] {
            assert_eq!(named(&[&[first], &id[..], &[7; 30]].concat()), second, "drained, too");
        }
        let long = |first: u8, version: [u8; 4]| {
            named(&[&[first], &version[..], &[id.len() as u8], id, &[0, 9, 9]].concat())
        };
        let (v1, v2) = ([0, 0, 0, 1], [0x6b, 0x33, 0x43, 0xcf]);
        assert_eq!((long(0xe0, v1), long(0xc0, v2)), (second, second), "Handshake");
        assert_eq!((long(0xc0, v1), long(0xd0, v2)), (None, None), "Initial");
        assert_eq!((long(0xd0, v1), long(0xe0, v2)), (None, None), "0-RTT");
        assert_eq!(long(0xe0, [0xfa, 0xce, 0xb0, 0x02]), None, "another version");
        let cut = [&[0xe0, 0, 0, 0, 1, id.len() as u8], &id[..id.len() - 1]].concat();
        assert_eq!((named(&cut), named(&[0x40]), named(&[])), (None, None, None));
    }
    for rotation in 2..8_u8 {
        assert_eq!(named(&[&[0x40, rotation << 5], &plain[1..]].concat()), None, "{rotation}");
    }
    let unknown = encode(&ids(0, (1, 4), None), &[13], &[1, 2, 3, 4]);
    assert_eq!(named(&[&[0x40], &unknown[..]].concat()), None);
    assert!(service.hashed(&flow(Udp, "10.71.0.7:5", "10.71.0.100:443")).is_some());
}

#[test]
fn a_key_is_not_printed_among_other_things() {
    let ids = ids(0, (3, 13), Some([0xab; 16]));
    assert!(!format!("{ids:?}").to_lowercase().contains("abab"), "{ids:?}");
    assert_eq!("ab".repeat(16).parse(), Ok(Key128([0xab; 16])));
    let wrong = "ab".repeat(15).parse::<Key128>().unwrap_err().to_string();
    assert!(!wrong.contains("abab"), "{wrong}");
}
