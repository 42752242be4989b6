//! The header of a response as the client gets it.
use splice::Changes;

/// The field of RFC 6797.
const STRICT: &str = "Strict-Transport-Security";

/// Bytes of a response's header, at most.
pub(crate) const MAX_HEAD: usize = 65_536;

/// What the connection to the client does behind a response.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ending {
    /// Whether it goes on.
    pub(crate) keeps: bool,
    /// Whether the client is told so: HTTP/1.0 clients expect the end.
    pub(crate) is_old: bool,
}

/// What a service changes in the headers of its responses.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Dress<'a> {
    /// The value of `Strict-Transport-Security`.
    pub(crate) hsts: Option<&'a str>,
    /// What the configuration sets, adds and removes.
    pub(crate) changes: Changes<'a>,
    /// The cookie that leads to the backend again, with its attributes.
    pub(crate) cookie: Option<&'a str>,
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
pub(crate) fn rewrite(head: &[u8], ending: Ending, dress: &Dress<'_>) -> Vec<u8> {
    let mut out = Vec::with_capacity(head.len() + 256);
    let mut lines = head.split_inclusive(|byte| *byte == b'\n');
    // The version is the sender's own (RFC 9110 section 6.2).
    out.extend_from_slice(b"HTTP/1.1");
    out.extend_from_slice(lines.next().and_then(|line| line.get(8..)).unwrap_or_default());
    let mut strict = dress.hsts.filter(|_| !dress.changes.drop(STRICT.as_bytes()));
    let mut put = |parts: [&[u8]; 4]| parts.into_iter().for_each(|own| out.extend_from_slice(own));
    for line in lines.filter(|line| *line != b"\r\n") {
        let name = line.split(|byte| *byte == b':').next().unwrap_or_default();
        let is = |own: &str| name.eq_ignore_ascii_case(own.as_bytes());
        if ["connection", "keep-alive", "proxy-connection"].into_iter().any(is)
            || dress.changes.drop(name)
            || is_listed(head, name)
        {
            continue;
        }
        if is(STRICT) {
            // The backend knows its own policy best.
            strict = None;
        }
        put([line, b"", b"", b""]);
    }
    dress.changes.written().for_each(&mut put);
    if let Some(value) = strict {
        put([STRICT.as_bytes(), b": ", value.as_bytes(), b"\r\n"]);
    }
    if let Some(cookie) = dress.cookie {
        put([b"Set-Cookie", b": ", cookie.as_bytes(), b"\r\n"]);
    }
    match (ending.keeps, ending.is_old) {
        (false, _) => out.extend_from_slice(b"Connection: close\r\n"),
        (true, true) => out.extend_from_slice(b"Connection: keep-alive\r\n"),
        (true, false) => {}
    }
    out.extend_from_slice(b"\r\n");
    out
}

/// Whether a Connection field of the header lists the field `name`, which is for the
/// backend's connection alone then (RFC 9110 section 7.6.1). What frames the body passes.
fn is_listed(head: &[u8], name: &[u8]) -> bool {
    let frames: [&[u8]; 2] = [b"content-length", b"transfer-encoding"];
    if frames.iter().any(|own| own.eq_ignore_ascii_case(name)) {
        return false;
    }
    let mut lists = fields(head).filter(|(own, _)| own.eq_ignore_ascii_case(b"connection"));
    lists.any(|(_, value)| {
        let mut tokens = value.split(|byte| *byte == b',').map(<[u8]>::trim_ascii);
        tokens.any(|token| token.eq_ignore_ascii_case(name))
    })
}

/// The fields of a header that is in order, with their values.
pub(crate) fn fields(head: &[u8]) -> impl Iterator<Item = (&[u8], &[u8])> {
    let lines = head.split(|byte| *byte == b'\n').skip(1);
    lines.filter_map(|line| {
        let colon = line.iter().position(|byte| *byte == b':')?;
        let (name, value) = line.split_at_checked(colon)?;
        Some((name, value.get(1..)?.trim_ascii()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_of_the_backends_connection_stay_behind() {
        let head = b"HTTP/1.0 200 Fine\r\nKeep-Alive: 5\r\nA: b\r\nCONNECTION: close\r\n\r\n";
        let dress = Dress { hsts: Some("max-age=1"), ..Dress::default() };
        let text = |head, keeps, is_old| {
            String::from_utf8(rewrite(head, Ending { keeps, is_old }, &dress)).unwrap()
        };
        let wanted = "HTTP/1.1 200 Fine\r\nA: b\r\nStrict-Transport-Security: max-age=1\r\n\r\n";
        assert_eq!((text(head, true, false).as_str(), status(head)), (wanted, Some(200)));
        let own = b"HTTP/1.1 204 No\r\nstrict-transport-security: max-age=9\r\n\r\n";
        let wanted =
            "HTTP/1.1 204 No\r\nstrict-transport-security: max-age=9\r\nConnection: close\r\n\r\n";
        assert_eq!(text(own, false, true), wanted);
        let listed =
            b"HTTP/1.1 200 A\r\nX-Hop: 1\r\nConnection: x-hop, Content-Length\r\nContent-Length: 0\r\n\r\n";
        let wanted =
            "HTTP/1.1 200 A\r\nContent-Length: 0\r\nStrict-Transport-Security: max-age=1\r\n\r\n";
        assert_eq!(text(listed, true, false), wanted);
    }

    #[test]
    fn what_a_configuration_sets_takes_the_place_of_what_was_there() {
        let set = [("Server".to_owned(), "own".to_owned())];
        let add = [("Vary".to_owned(), "Origin".to_owned())];
        let remove = ["x-secret".to_owned(), "strict-transport-security".to_owned()];
        let changes = Changes { set: &set, add: &add, remove: &remove };
        let dress = Dress { hsts: Some("max-age=1"), changes, cookie: Some("H=1; Path=/") };
        let head = b"HTTP/1.1 200 A\r\nserver: nginx\r\nVary: A\r\nX-Secret: 1\r\n\r\n";
        let ending = Ending { keeps: true, is_old: false };
        assert_eq!(
            String::from_utf8(rewrite(head, ending, &dress)).unwrap(),
            "HTTP/1.1 200 A\r\nVary: A\r\nServer: own\r\nVary: Origin\r\n\
             Set-Cookie: H=1; Path=/\r\n\r\n"
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
