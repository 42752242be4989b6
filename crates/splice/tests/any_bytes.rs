//! Any bytes at all, and such as are nearly right.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests may")]
#[path = "support/checks.rs"]
mod checks;
#[allow(dead_code)]
#[path = "support/shortcut.rs"]
mod shortcut;
#[path = "support/steady.rs"]
mod steady;

use std::cell::Cell;

use proptest::prelude::*;
use proptest::test_runner::TestRunner;

/// Pieces of which requests are made, and what is wrong with requests.
const WORDS: [&str; 24] = [
    "GET ",
    "POST ",
    "/",
    "/a?b",
    "*",
    "http://h",
    " ",
    " HTTP/1.1\r\n",
    " HTTP/1.0\r\n",
    "\r\n",
    "\n",
    "\r",
    "Host: h\r\n",
    "Host: h:1\r\n",
    "Content-Length: 5\r\n",
    "Transfer-Encoding: ",
    "chunked\r\n",
    "A",
    ":",
    "\t",
    "\0",
    "Connection: close\r\n",
    "\u{e9}",
    "5\r\nabcde\r\n0\r\n\r\n",
];

/// The steps that open a connection to the backend.
fn opened() -> Vec<u8> {
    let request = b"GET / HTTP/1.1\r\nHost: h\r\n\r\n";
    let mut bytes = vec![0, 2, 16, 16, 0, 0, 0];
    bytes.extend([0, 24, 17, 17, 0, 0, request.len() as u8]);
    bytes.extend(request);
    bytes.extend([1, 18, 16, 17, 0, 0, 0]);
    bytes
}

#[test]
fn a_fast_path_in_front_of_the_machine_changes_no_byte() {
    let passed = Cell::new(0);
    let mut runner = TestRunner::new(ProptestConfig::with_cases(2_000));
    let near = prop_oneof![4 => Just(0_u8), 1 => any::<u8>()];
    // The places of a step's numbers are near 0, and all else is any byte.
    let step = (any::<u8>(), any::<u8>(), any::<u8>(), prop::collection::vec(near, 3..12));
    let steps = prop::collection::vec(step, 0..40);
    let ends = runner.run(&(any::<[u8; 6]>(), steps), |(open, steps)| {
        let mut bytes = open.to_vec();
        for (kind, form, length, numbers) in steps {
            bytes.extend([kind, form, length]);
            bytes.extend(numbers);
        }
        passed.set(passed.get() + steady::twins(&bytes));
        Ok(())
    });
    ends.unwrap();
    println!("{} segments have passed without the machine", passed.get());
    assert!(passed.get() > 500, "{}", passed.get());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn an_accepted_request_is_one_to_httparse_too(
        valid in any::<bool>(),
        words in prop::collection::vec(prop::sample::select(&WORDS[..]), 0..12),
    ) {
        let front = if valid { "GET / HTTP/1.1\r\nHost: h\r\n" } else { "" };
        checks::request(format!("{front}{}\r\n", words.concat()).as_bytes());
    }

    #[test]
    fn a_chunked_body_ends_at_one_place(
        words in prop::collection::vec(prop::sample::select(&["0", "1", "a", ";", "x", "\r\n", "\r", "\n", "0\r\n", "1\r\na\r\n", "A: b\r\n", " "][..]), 0..12),
    ) {
        checks::chunked(words.concat().as_bytes());
    }

    #[test]
    fn a_hello_is_whole_or_not(bytes in prop::collection::vec(prop::sample::select(&[0_u8, 1, 2, 3, 16, 22, 40][..]), 0..300)) {
        checks::hello(&bytes);
    }

    #[test]
    fn the_agent_sends_sound_segments_whatever_it_gets(
        open in any::<bool>(),
        steps in prop::collection::vec((0_u8..2, prop::sample::select(&[2_u8, 16, 18, 24, 17, 4, 20, 1, 0xd8][..]), 14_u8..20, 14_u8..20, 0_u8..60, 0_u8..3, prop::sample::select(&["", "GET / HTTP/1.1\r\n", "Host: h\r\n\r\n", "GET / HTTP/1.1\r\nHost: h\r\n\r\n", "POST /abcd HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n", "HTTP/1.1 101 x\r\n\r\n", "zz"][..])), 0..24),
        noise in prop::collection::vec(any::<u8>(), 0..200),
    ) {
        let mut bytes = if open { opened() } else { Vec::new() };
        for (side, flags, seq, ack, time, options, text) in steps {
            bytes.extend([side, flags, seq, ack, time, options, text.len() as u8]);
            bytes.extend([[2, 4, 5, 0xb4], [1, 3, 3, 7]].concat().iter().take(usize::from(options) * 4));
            bytes.extend(text.bytes());
        }
        bytes.extend(noise);
        checks::agent(&bytes);
    }

    #[test]
    fn responses_are_read_alike_however_they_are_cut(
        kind in any::<u8>(),
        words in prop::collection::vec(prop::sample::select(&["HTTP/1.1 200 OK\r\n", "HTTP/1.0 404 No\r\n", "HTTP/1.1 100 Go\r\n", "HTTP/1.1 101 Up\r\n", "HTTP/1.1 204 \r\n", "\r\n", "\r", "\n", "Content-Length: 3\r\n", "Transfer-Encoding: chunked\r\n", "Connection: close\r\n", "abc", "0\r\n\r\n", " ", "A: b\r\n"][..]), 0..14),
    ) {
        let stream = words.concat();
        checks::responses(&[&[kind], stream.as_bytes()].concat());
    }
}
