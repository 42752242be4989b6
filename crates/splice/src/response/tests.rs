//! Responses end where they were made to end, and what could be read in two ways is
//! refused.
use super::*;
use proptest::prelude::*;

/// A response, whether it answers HEAD, and whether it is an interim one.
fn response(kind: u8, size: usize, head: bool) -> (Vec<u8>, bool) {
    let body = vec![b'\n'; size];
    let text = match kind % 5 {
        0 => format!("HTTP/1.1 200 OK\r\nA: b\r\ncontent-length:  {size} \r\n\r\n"),
        1 => "HTTP/1.1 200\r\nTransfer-Encoding: Chunked\r\n\r\n".to_owned(),
        2 => format!("HTTP/1.1 304 Not Modified\r\nContent-Length: {size}\r\n\r\n"),
        3 => "HTTP/1.1 204 No\r\n\r\n".to_owned(),
        _ => format!("HTTP/1.1 103 Early\r\nLink: {}\r\n\r\n", "x".repeat(size)),
    };
    let mut bytes = text.into_bytes();
    match kind % 5 {
        0 if !head => bytes.extend(body),
        1 if !head => {
            for chunk in body.chunks(7) {
                bytes.extend(format!("{:x}\r\n", chunk.len()).bytes());
                bytes.extend(chunk);
                bytes.extend(b"\r\n");
            }
            bytes.extend(b"0\r\n\r\n");
        }
        _ => {}
    }
    (bytes, kind % 5 == 4)
}

proptest! {
    #[test]
    fn responses_end_where_they_were_made_to_end(
        kinds in prop::collection::vec((any::<u8>(), 0_usize..300, any::<bool>()), 1..9),
        cut in 1_usize..50,
    ) {
        let (mut stream, mut ends) = (Vec::new(), Vec::new());
        let mut responses = Responses::default();
        for (kind, size, head) in kinds {
            let (bytes, interim) = response(kind, size, head);
            stream.extend(bytes);
            if interim {
                stream.extend(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
            }
            let asked = responses.ask(Asked { head, ..Asked::default() });
            prop_assert!(asked);
            ends.push(stream.len());
        }
        let mut read = 0;
        for piece in stream.chunks(cut) {
            prop_assert!(!responses.is_idle());
            responses.read(piece, |_| ()).unwrap();
            read += piece.len();
            let whole = ends.iter().filter(|end| **end <= read).count();
            prop_assert_eq!(responses.waiting.count() as usize, ends.len() - whole);
        }
        prop_assert!(responses.is_idle());
        prop_assert_eq!(responses.read(b"H", |_| ()), Err(BadResponse::NotAsked));
    }

    #[test]
    fn skipping_a_body_is_as_good_as_reading_it(size in 1_u32..2_000, skipped in 0_u32..3_000) {
        let header = format!("HTTP/1.1 200 OK\r\nContent-Length: {size}\r\n\r\n");
        let mut responses = Responses::default();
        responses.ask(Asked::default());
        responses.read(header.as_bytes(), |_| ()).unwrap();
        let passed = responses.skip(skipped);
        prop_assert_eq!(passed, skipped.min(size));
        responses.read(&vec![b'x'; (size - passed) as usize], |_| ()).unwrap();
        prop_assert!(responses.is_idle());
    }
}

#[test]
fn what_could_be_read_in_two_ways_is_refused_by_name() {
    let long = format!("Content-Length: {}1\r\n", "0".repeat(200));
    for (text, why) in [
        ("HTTP/2 200\r\n", BadResponse::StatusLine),
        ("HTTP/1.1 20\r\n", BadResponse::StatusLine),
        ("HTTP/1.1 2000 OK\r\n", BadResponse::StatusLine),
        ("HTTP/1.1 999 OK\r\n", BadResponse::StatusLine),
        ("\r\nHTTP/1.1 200 OK\r\n", BadResponse::StatusLine),
        ("HTTP/1.1 200 OK\n", BadResponse::Field),
        ("HTTP/1.1 200 OK\r\nA: b\rc\r\n", BadResponse::Field),
        ("HTTP/1.1 200 OK\r\nA: b\r\n c\r\n", BadResponse::Field),
        ("HTTP/1.1 200 OK\r\nA : b\r\n", BadResponse::Field),
        ("HTTP/1.1 200 OK\r\nA\r\n", BadResponse::Field),
        ("HTTP/1.1 200 OK\r\nContent-Length: +1\r\n", BadResponse::Length),
        ("HTTP/1.1 200 OK\r\nContent-Length: 1, 1\r\n", BadResponse::Length),
        ("HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 1\r\n", BadResponse::Length),
        (
            "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
            BadResponse::Length,
        ),
        ("HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", BadResponse::Length),
        ("HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n", BadResponse::Chunks),
        ("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nx", BadResponse::Chunks),
        ("HTTP/1.1 101 Switching\r\n\r\n", BadResponse::NotUpgraded),
        (&format!("HTTP/1.1 200 OK\r\n{long}"), BadResponse::TooLong),
    ] {
        let mut responses = Responses::default();
        responses.ask(Asked::default());
        assert_eq!(responses.read(text.as_bytes(), |_| ()), Err(why), "{text:?}");
    }
}

#[test]
fn bytes_until_the_end_are_no_responses() {
    for text in [
        "HTTP/1.1 200 OK\r\n\r\n",
        "HTTP/1.0 200 OK\r\nContent-Length: 1\r\n\r\nx",
        "HTTP/1.1 200 OK\r\nConnection: a, Close\r\nContent-Length: 0\r\n\r\n",
        "HTTP/1.1 101 Switching Protocols\r\n\r\n",
    ] {
        let mut responses = Responses::default();
        responses.ask(Asked { head: false, upgrades: true, ..Asked::default() });
        responses.read(text.as_bytes(), |_| ()).unwrap();
        assert!(responses.is_all(), "{text:?}");
        assert_eq!(responses.read(b"anything", |_| ()), Ok(()));
    }
}
