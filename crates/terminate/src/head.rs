//! The header of a response as the client gets it.

/// Bytes of a response's header, at most.
pub(crate) const MAX_HEAD: usize = 65_536;

/// What a header is changed by.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Changes<'a> {
    /// Whether the connection goes on behind the response.
    pub(crate) keeps: bool,
    /// Whether the client is told so: HTTP/1.0 clients expect the end.
    pub(crate) is_old: bool,
    /// The value of `Strict-Transport-Security`.
    pub(crate) hsts: Option<&'a str>,
}

/// Where the header at the front of `bytes` ends; `searched` bytes have been looked at
/// before.
pub(crate) fn end(bytes: &[u8], searched: usize) -> Option<usize> {
    let from = searched.saturating_sub(3);
    let rest = bytes.get(from..)?;
    rest.windows(4).position(|four| four == b"\r\n\r\n").map(|at| from + at + 4)
}

/// The status code of a header that is in order.
pub(crate) fn status(head: &[u8]) -> Option<u16> {
    std::str::from_utf8(head.get(9..12)?).ok()?.parse().ok()
}

/// The header of a final response: fields of the backend's connection are left out, and
/// the service's own put in.
pub(crate) fn rewrite(head: &[u8], changes: Changes<'_>) -> Vec<u8> {
    let mut out = Vec::with_capacity(head.len() + 128);
    let mut lines = head.split_inclusive(|byte| *byte == b'\n');
    // The version is the sender's own (RFC 9110 section 6.2).
    out.extend_from_slice(b"HTTP/1.1");
    out.extend_from_slice(lines.next().and_then(|line| line.get(8..)).unwrap_or_default());
    let mut strict = changes.hsts;
    for line in lines.filter(|line| *line != b"\r\n") {
        let name = line.split(|byte| *byte == b':').next().unwrap_or_default();
        let is = |own: &str| name.eq_ignore_ascii_case(own.as_bytes());
        if ["connection", "keep-alive", "proxy-connection"].into_iter().any(is) {
            continue;
        }
        if is("strict-transport-security") {
            // The backend knows its own policy best.
            strict = None;
        }
        out.extend_from_slice(line);
    }
    if let Some(value) = strict {
        for part in ["Strict-Transport-Security: ", value, "\r\n"] {
            out.extend_from_slice(part.as_bytes());
        }
    }
    match (changes.keeps, changes.is_old) {
        (false, _) => out.extend_from_slice(b"Connection: close\r\n"),
        (true, true) => out.extend_from_slice(b"Connection: keep-alive\r\n"),
        (true, false) => {}
    }
    out.extend_from_slice(b"\r\n");
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_of_the_backends_connection_stay_behind() {
        let head = b"HTTP/1.0 200 Fine\r\nKeep-Alive: 5\r\nA: b\r\nCONNECTION: close\r\n\r\n";
        let changes = Changes { keeps: true, is_old: false, hsts: Some("max-age=1") };
        let text = String::from_utf8(rewrite(head, changes)).unwrap();
        let wanted = "HTTP/1.1 200 Fine\r\nA: b\r\nStrict-Transport-Security: max-age=1\r\n\r\n";
        assert_eq!((text.as_str(), status(head)), (wanted, Some(200)));
        let own = b"HTTP/1.1 204 No\r\nstrict-transport-security: max-age=9\r\n\r\n";
        let changes = Changes { keeps: false, is_old: true, hsts: Some("max-age=1") };
        let text = String::from_utf8(rewrite(own, changes)).unwrap();
        assert_eq!(
            text,
            "HTTP/1.1 204 No\r\nstrict-transport-security: max-age=9\r\nConnection: close\r\n\r\n"
        );
    }

    #[test]
    fn the_end_is_found_wherever_the_pieces_are_cut() {
        let head = b"HTTP/1.1 200 OK\r\nA: b\r\n\r\nbody";
        for cut in 0..head.len() {
            let first = end(&head[..cut], 0);
            assert_eq!(first, (cut >= 25).then_some(25), "{cut}");
            if first.is_none() {
                assert_eq!(end(head, cut), Some(25), "{cut}");
            }
        }
    }
}
