//! The header of a response as the client gets it.
use crate::blocks::Block;
use crate::changes::Changes;
use crate::response::Head;

/// Fields that say something of the connection, which is the client's as well.
const OF_CONNECTION: [&[u8]; 3] = [b"close", b"keep-alive", b"upgrade"];

/// Writes the header `raw`, of which everything is there and well formed, into `block`,
/// with the cookie that says which backend it comes from. `None`: it does not fit.
pub(crate) fn write(
    block: &mut Block,
    raw: &[u8],
    head: &Head,
    changes: &Changes<'_>,
    cookie: Option<&str>,
) -> Option<()> {
    if head.is_interim() {
        return block.push(raw);
    }
    let mut lines = raw.split_inclusive(|byte| *byte == b'\n');
    block.push(lines.next()?)?;
    for line in lines {
        let colon = line.iter().position(|byte| *byte == b':');
        let Some((name, value)) = colon.and_then(|colon| line.split_at_checked(colon)) else {
            break;
        };
        if name.eq_ignore_ascii_case(b"connection") {
            // What it lists is for the connection to HNLB alone (RFC 9110 section 7.6.1).
            connection(block, value.get(1..)?)?;
        } else if !changes.drop(name) && !is_listed(raw, name) {
            block.push(line)?;
        }
    }
    for part in changes.written().flatten() {
        block.push(part)?;
    }
    if let Some(cookie) = cookie {
        for part in ["Set-Cookie: ", cookie, "\r\n"] {
            block.push(part.as_bytes())?;
        }
    }
    block.push(b"\r\n")
}

fn tokens(value: &[u8]) -> impl Iterator<Item = &[u8]> {
    value.split(|byte| *byte == b',').map(<[u8]>::trim_ascii).filter(|token| !token.is_empty())
}

fn is_of_connection(token: &[u8]) -> bool {
    OF_CONNECTION.iter().any(|own| own.eq_ignore_ascii_case(token))
}

/// The Connection field with what the client has to know of the connection.
fn connection(block: &mut Block, value: &[u8]) -> Option<()> {
    let mut sent = false;
    for token in tokens(value).filter(|token| is_of_connection(token)) {
        block.push(if sent { b", " } else { b"Connection: " })?;
        block.push(token)?;
        sent = true;
    }
    if sent { block.push(b"\r\n") } else { Some(()) }
}

/// Whether a Connection field of the header lists the field `name`. What frames the body,
/// and an Upgrade, pass all the same.
fn is_listed(raw: &[u8], name: &[u8]) -> bool {
    let kept: [&[u8]; 3] = [b"content-length", b"transfer-encoding", b"upgrade"];
    if kept.iter().any(|own| own.eq_ignore_ascii_case(name)) {
        return false;
    }
    let listing = raw.split(|byte| *byte == b'\n').filter_map(|line| {
        let colon = line.iter().position(|byte| *byte == b':')?;
        let (own, value) = line.split_at_checked(colon)?;
        own.eq_ignore_ascii_case(b"connection").then_some(value.get(1..)?)
    });
    listing.flat_map(tokens).any(|token| token.eq_ignore_ascii_case(name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::blocks::Blocks;
    use crate::response::Asked;

    fn written(raw: &str, status: u16, changes: &Changes<'_>, cookie: Option<&str>) -> String {
        let mut block = Blocks::new(1, 0).get().unwrap();
        let head = Head { status, asked: Asked::default() };
        write(&mut block, raw.as_bytes(), &head, changes, cookie).unwrap();
        String::from_utf8(block.bytes().to_vec()).unwrap()
    }

    #[test]
    fn fields_are_set_added_and_removed() {
        let named = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        let set = [named("X-Frame-Options", "DENY")];
        let add = [named("Vary", "Origin")];
        let remove = ["server".to_owned()];
        let changes = Changes { set: &set, add: &add, remove: &remove };
        let raw = "HTTP/1.1 200 OK\r\nServer: a\r\nx-frame-options: ALLOW\r\nVary: b\r\n\
                   Keep-Alive: timeout=5\r\nConnection: keep-alive, keep-alive, x-own\r\n\
                   X-Own: 1\r\nConnection: x-other\r\nContent-Length: 3\r\n\r\n";
        assert_eq!(
            written(raw, 200, &changes, Some("a=b; Path=/")),
            "HTTP/1.1 200 OK\r\nVary: b\r\nConnection: keep-alive, keep-alive\r\n\
             Content-Length: 3\r\nX-Frame-Options: DENY\r\nVary: Origin\r\n\
             Set-Cookie: a=b; Path=/\r\n\r\n"
        );
        let interim = "HTTP/1.1 103 Early Hints\r\nServer: a\r\nLink: b\r\n\r\n";
        assert_eq!(written(interim, 103, &changes, None), interim);
    }

    #[test]
    fn a_field_that_frames_the_body_passes_even_if_it_is_listed() {
        let raw = "HTTP/1.1 200 OK\r\nConnection: content-length, close\r\n\
                   Content-Length: 3\r\n\r\n";
        let wanted = "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 3\r\n\r\n";
        assert_eq!(written(raw, 200, &Changes::default(), None), wanted);
    }
}
