//! Requests of HTTP/2 as HTTP/1.1 has them, and responses of HTTP/1.1 as HTTP/2 has them
//! (RFC 9113 section 8).
use http::header::{CONTENT_LENGTH, COOKIE, HOST, TRANSFER_ENCODING};
use http::{HeaderName, HeaderValue, Method, Request, Response, StatusCode};

use crate::head;

/// Fields that a connection of HTTP/2 has no use for (RFC 9113 section 8.2.2).
const OF_CONNECTION: [&str; 5] =
    ["connection", "keep-alive", "proxy-connection", "transfer-encoding", "upgrade"];

/// How the body of a request goes to the backend.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Framing {
    /// As it comes: the header says how long it is, or there is none.
    Plain,
    /// In chunks.
    Chunks,
}

/// The header of `request` in HTTP/1.1, to be read as one that a client has sent; `ends`:
/// it has no body. Whatever must not be is left for the parser to find.
pub(crate) fn request(request: &Request<()>, ends: bool) -> (Vec<u8>, Framing) {
    let mut raw = Vec::with_capacity(512);
    let mut put = |parts: [&[u8]; 4]| parts.into_iter().for_each(|own| raw.extend_from_slice(own));
    let (method, uri, fields) = (request.method(), request.uri(), request.headers());
    let target = match (method, uri.path_and_query()) {
        (&Method::CONNECT, _) => uri.authority().map_or("", |own| own.as_str()),
        (_, Some(target)) => target.as_str(),
        (_, None) => "/",
    };
    put([method.as_str().as_bytes(), b" ", target.as_bytes(), b" HTTP/1.1\r\n"]);
    let authority = uri.authority().map(|own| own.as_str().as_bytes());
    if let Some(authority) = authority {
        put([b"Host: ", authority, b"\r\n", b""]);
    }
    for (name, value) in fields {
        // A Host that says something else stays, as a second one.
        let repeats = name == HOST && authority == Some(value.as_bytes());
        if repeats || name == COOKIE || OF_CONNECTION.contains(&name.as_str()) {
            continue;
        }
        put([name.as_str().as_bytes(), b": ", value.as_bytes(), b"\r\n"]);
    }
    // The pairs of cookies may come in several fields (RFC 9113 section 8.2.3).
    let cookies: Vec<&[u8]> = fields.get_all(COOKIE).iter().map(HeaderValue::as_bytes).collect();
    if !cookies.is_empty() {
        put([b"Cookie: ", &cookies.join(&b"; "[..]), b"\r\n", b""]);
    }
    let has_length = fields.contains_key(CONTENT_LENGTH);
    let means_body = [Method::POST, Method::PUT, Method::PATCH].contains(method);
    let framing = if ends || has_length { Framing::Plain } else { Framing::Chunks };
    match framing {
        Framing::Chunks => put([b"Transfer-Encoding: chunked\r\n\r\n", b"", b"", b""]),
        Framing::Plain if ends && means_body && !has_length => {
            put([b"Content-Length: 0\r\n\r\n", b"", b"", b""]);
        }
        Framing::Plain => put([b"\r\n", b"", b"", b""]),
    }
    (raw, framing)
}

/// A response's header, and whether its body comes in chunks. `None`: it can't be said in
/// HTTP/2.
pub(crate) fn response(head: &[u8]) -> Option<(Response<()>, bool)> {
    let mut response = Response::new(());
    *response.status_mut() = StatusCode::from_u16(head::status(head)?).ok()?;
    let mut chunked = false;
    for (name, value) in head::fields(head) {
        let name = HeaderName::from_bytes(name).ok()?;
        if name == TRANSFER_ENCODING {
            chunked |= value.eq_ignore_ascii_case(b"chunked");
        }
        if !OF_CONNECTION.contains(&name.as_str()) {
            response.headers_mut().append(name, HeaderValue::from_bytes(value).ok()?);
        }
    }
    Some((response, chunked))
}

#[cfg(test)]
mod tests {
    use super::*;
    use splice::{Body, Refusal};

    fn asked(method: &str, uri: &str, fields: &[(&str, &str)]) -> Request<()> {
        let mut request = Request::builder().method(method).uri(uri);
        for (name, value) in fields {
            request = request.header(*name, *value);
        }
        request.body(()).unwrap()
    }

    #[test]
    fn a_request_means_the_same() {
        let fields = [("cookie", "a=1"), ("cookie", "b=2"), ("host", "a.lab"), ("x", "y")];
        let (raw, framing) = request(&asked("GET", "https://a.lab/x?y=z", &fields), true);
        let wanted = "GET /x?y=z HTTP/1.1\r\nHost: a.lab\r\nx: y\r\nCookie: a=1; b=2\r\n\r\n";
        assert_eq!((String::from_utf8(raw).unwrap().as_str(), framing), (wanted, Framing::Plain));
        for (fields, ends, framing, body) in [
            (&[][..], false, Framing::Chunks, Body::Chunked),
            (&[("content-length", "7")][..], false, Framing::Plain, Body::Length(7)),
            (&[][..], true, Framing::Plain, Body::Length(0)),
        ] {
            let (raw, found) = request(&asked("POST", "https://a/", fields), ends);
            let parsed = splice::Request::parse(&raw).unwrap().unwrap();
            assert_eq!((found, parsed.body, parsed.length), (framing, body, raw.len()));
        }
    }

    #[test]
    fn what_must_not_be_is_refused() {
        for (request_, refusal) in [
            (asked("GET", "https://a/", &[("host", "b")]), Refusal::ManyHosts),
            (asked("CONNECT", "a:443", &[]), Refusal::Connect),
            (asked("GET", "https://u@a/", &[]), Refusal::Host),
            (asked("GET", "/", &[]), Refusal::NoHost),
        ] {
            let (raw, _) = request(&request_, true);
            assert_eq!(splice::Request::parse(&raw), Err(refusal), "{request_:?}");
        }
    }

    #[test]
    fn fields_of_a_connection_stay_behind() {
        let head = b"HTTP/1.1 203 X\r\nA: b\r\nTransfer-Encoding: chunked\r\nUpgrade: h2c\r\n\r\n";
        let (found, chunked) = response(head).unwrap();
        assert_eq!((found.status().as_u16(), chunked, found.headers().len()), (203, true, 1));
        assert_eq!(found.headers()["a"], "b");
    }
}
