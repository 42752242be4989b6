//! How connections end on which one request has reached the backend and the next can't.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, reason = "tests may")]
#[allow(dead_code)]
#[path = "support/checks.rs"]
mod checks;
#[allow(dead_code)]
#[path = "support/scene.rs"]
mod scene;

use checks::{BACKEND, CLIENT};
use scene::{ACK, RST, Scene, text};
use splice::Event;

#[test]
fn a_reset_within_a_second_header_reaches_the_backend() {
    for other in [0, 3] {
        let mut scene = Scene::new();
        scene.send(0, ACK, b"GET /second HTT");
        let expected = scene.got[1];
        scene.next[0] -= other;
        let sent = scene.send(0, RST, &[]);
        let resets: Vec<u32> = sent
            .iter()
            .filter(|one| one.to == BACKEND && one.flags & RST != 0)
            .map(|one| one.sequence)
            .collect();
        // Only the exact number counts (RFC 5961 section 3.2).
        assert_eq!(resets, if other == 0 { vec![expected] } else { Vec::new() });
    }
}

#[test]
fn a_second_request_that_cannot_be_read_is_refused_behind_the_first_response() {
    for second in ["GET / HTTP/1.1\r\nHost : h\r\n\r\n", "nonsense\r\n\r\n"] {
        let mut scene = Scene::new();
        let sent = scene.send(0, ACK, second.as_bytes());
        assert!(sent.iter().all(|one| one.flags & RST == 0), "{sent:?}");
        let response = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
        let sent = scene.send(1, ACK, response.as_bytes());
        assert_eq!(text(&sent, CLIENT), response);
        let end = scene.got[0];
        let sent = scene.send(0, ACK, &[]);
        let answer = sent.iter().find(|one| !one.payload.is_empty()).unwrap();
        assert!(text(&sent, CLIENT).starts_with("HTTP/1.1 400 Bad Request\r\n"), "{sent:?}");
        assert_eq!((answer.sequence, answer.to), (end, CLIENT));
        assert_eq!(answer.acknowledgement, scene.next[0]);
        assert!(sent.iter().any(|one| one.to == BACKEND && one.flags & RST != 0));
        assert!(!scene.around.events.contains(&Event::Reset));
    }
}
