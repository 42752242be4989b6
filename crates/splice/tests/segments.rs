//! What else a segment says, where it can't pass as it came.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, reason = "tests may")]
#[allow(dead_code)]
#[path = "support/checks.rs"]
mod checks;
#[allow(dead_code)]
#[path = "support/scene.rs"]
mod scene;

use checks::{BACKEND, CLIENT};
use scene::{ACK, RST, SYN, Scene, Sent};

const PSH: u8 = 8;
const URG: u8 = 32;
const SACK_PERMITTED: &[u8] = &[4, 2];

/// Where urgent data ends in the stream of those segments to `to` that say so, and how many
/// others there are.
fn urgent_ends(sent: &[Sent], to: std::net::SocketAddr) -> (Vec<u32>, usize) {
    let all = sent.iter().filter(|one| one.to == to);
    let (urgent, plain): (Vec<&Sent>, Vec<&Sent>) = all.partition(|one| one.flags & URG != 0);
    assert!(plain.iter().all(|one| one.urgent == 0), "{plain:?}");
    let ends = urgent.iter().map(|one| one.sequence.wrapping_add(one.urgent.into()));
    (ends.collect(), plain.len())
}

#[test]
fn urgent_data_ends_at_the_same_byte_in_each_piece_of_a_segment() {
    // Without an option for it, a segment has 536 bytes.
    let mut scene = Scene::new();
    scene.send(0, ACK, b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 3000\r\n\r\n");
    let begins = scene.got[1];
    scene.urgent = 700;
    let sent = scene.send(0, ACK | PSH | URG, &[b'x'; 1_200]);
    assert_eq!(sent.iter().map(|one| one.payload.len()).collect::<Vec<_>>(), [536, 536, 128]);
    assert_eq!(urgent_ends(&sent, BACKEND), (vec![begins + 700; 2], 1));
    scene.urgent = 0;
    let sent = scene.send(0, ACK, &[b'x'; 1_200]);
    assert_eq!(urgent_ends(&sent, BACKEND), (vec![], 3));
}

#[test]
fn a_duplicate_selective_acknowledgement_names_the_other_sides_numbers() {
    let mut scene = Scene::with(SACK_PERMITTED);
    scene.send(1, ACK, b"HTTP/1.1 200 OK\r\nContent-Length: 900\r\n\r\n");
    scene.send(1, ACK, &[b'x'; 400]);
    let numbers = |sent: &[Sent]| -> Vec<u32> {
        let [one] = sent else { panic!("{sent:?}") };
        let options = one.options.as_slice();
        let at = options.iter().position(|byte| *byte == 5).unwrap();
        assert_eq!(options[at + 1], 18, "two blocks");
        let edges = options[at + 2..at + 18].chunks(4);
        let edges = edges.map(|edge| u32::from_be_bytes(edge.try_into().unwrap()));
        edges.map(|edge| one.acknowledgement.wrapping_sub(edge)).collect()
    };
    // The client has got the last 100 bytes twice (RFC 2883 section 4): the first block is
    // before what it acknowledges. The second says that bytes behind a gap have come.
    let acknowledged = scene.got[0];
    let edges = [100, 0, 0_u32.wrapping_sub(200), 0_u32.wrapping_sub(300)];
    let mut options = vec![1, 1, 5, 18];
    for edge in edges {
        options.extend(acknowledged.wrapping_sub(edge).to_be_bytes());
    }
    scene.options = options.leak();
    let sent = scene.send(0, ACK, &[]);
    assert!(sent.iter().all(|one| one.to == BACKEND), "{sent:?}");
    assert_eq!(numbers(&sent), edges);
    // The backend has got part of the request twice: what it names is part of a header
    // that was replaced, and its client has sent other bytes there.
    scene.send(1, ACK, &[]);
    let acknowledged = scene.got[1];
    let mut options = vec![1, 1, 5, 10];
    for edge in [20_u32, 10] {
        options.extend(acknowledged.wrapping_sub(edge).to_be_bytes());
    }
    scene.options = options.leak();
    let sent = scene.send(1, ACK, &[]);
    assert!(sent.iter().all(|one| one.to == CLIENT), "{sent:?}");
    let [one] = sent.as_slice() else { panic!("{sent:?}") };
    let at = one.options.iter().position(|byte| *byte == 5);
    let edges = at.map(|at| one.options[at + 2..at + 10].to_vec()).unwrap_or_default();
    for edge in edges.chunks(4) {
        let edge = u32::from_be_bytes(edge.try_into().unwrap());
        let before = one.acknowledgement.wrapping_sub(edge);
        assert!(before < 1 << 20, "nothing that the client has not sent: {before}");
    }
}

#[test]
fn a_backend_that_has_an_earlier_connection_is_reset_and_sent_the_syn_again_once() {
    let mut scene = Scene::asked(&[]);
    for syns in [1, 0] {
        scene.got[1] = 77_777;
        let sent = scene.send(1, ACK, &[]);
        let found: Vec<(u8, u32)> = sent.iter().map(|one| (one.flags, one.sequence)).collect();
        let syn = (SYN, 999);
        assert_eq!(found, [[(RST, 77_777)].as_slice(), &[syn; 1][..syns]].concat());
    }
}

#[test]
fn a_request_is_logged_with_the_last_byte_of_its_response_and_not_before() {
    let mut scene = Scene::new();
    let header = b"HTTP/1.1 200 OK\r\nContent-Length: 400\r\n\r\n";
    scene.send(1, ACK, header);
    scene.send(1, ACK, &[b'x'; 399]);
    assert!(scene.around.logged.is_empty(), "{:?}", scene.around.logged);
    scene.send(1, ACK, b"x");
    assert_eq!(scene.around.logged, [header.len() as u64 + 400]);
}
