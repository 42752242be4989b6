//! The header of a request, read strictly (RFC 9112, RFC 9110).
use std::ops::Range;

use arrayvec::ArrayVec;

use crate::refusal::Refusal;

/// Fields that a header may have.
pub const MAX_FIELDS: usize = 100;

/// A field as it was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Field<'a> {
    /// Its name, a token.
    pub name: &'a str,
    /// Its value without the white space around it.
    pub value: &'a [u8],
}

impl Field<'_> {
    /// Whether the field has this name.
    #[must_use]
    pub fn is(&self, name: &str) -> bool {
        self.name.eq_ignore_ascii_case(name)
    }
}

/// How long a request's body is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Body {
    /// So many bytes.
    Length(u64),
    /// It says so itself (RFC 9112 section 7.1).
    Chunked,
}

/// A request header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request<'a> {
    /// The method, case as sent.
    pub method: &'a str,
    /// The target as sent.
    pub target: &'a str,
    /// The path of the target, without the query; `*` for `OPTIONS *`.
    pub path: &'a str,
    /// The host that is asked for, with its port if it names one; empty if there is none.
    pub host: &'a str,
    /// The minor version: HTTP/1.0 or HTTP/1.1.
    pub minor: u8,
    /// Every field, in order.
    pub fields: ArrayVec<Field<'a>, MAX_FIELDS>,
    /// Its body.
    pub body: Body,
    /// Whether it asks for another protocol on the connection.
    pub upgrades: bool,
    /// Bytes of the header, up to and with the empty line.
    pub length: usize,
    /// Among which of the fields those named Connection are, and whether they list anything
    /// but `close` and `keep-alive`.
    connection: Range<usize>,
    lists_fields: bool,
}

/// What the Connection field of nearly all requests lists, if anything.
const USUAL: [&str; 2] = ["close", "keep-alive"];

impl<'a> Request<'a> {
    /// Reads the header at the beginning of `bytes`. `None`: it goes on behind them.
    ///
    /// # Errors
    /// What is wrong with the request.
    pub fn parse(bytes: &'a [u8]) -> Result<Option<Self>, Refusal> {
        // Empty lines before a request are ignored (RFC 9112 section 2.2).
        let mut at = 0;
        while bytes.get(at..).is_some_and(|rest| rest.starts_with(b"\r\n")) {
            at += 2;
        }
        let Some(first) = line(bytes, &mut at)? else {
            return Ok(None);
        };
        let (method, target, minor) = request_line(first)?;
        let mut fields = ArrayVec::new();
        loop {
            let Some(next) = line(bytes, &mut at)? else { return Ok(None) };
            if next.is_empty() {
                break;
            }
            fields.try_push(field(next)?).map_err(|_| Refusal::TooManyFields)?;
        }
        let (path, authority) = split_target(method, target)?;
        let host = host(&fields, minor, authority)?;
        let body = body(&fields, minor)?;
        let connection = named_connection(&fields);
        let lists_fields = check_connection(fields.get(connection.clone()).unwrap_or_default())?;
        let (upgrades, length) = (minor == 1 && has(&fields, "upgrade"), at);
        let mut request = Self {
            method,
            target,
            path,
            host,
            minor,
            fields,
            body,
            upgrades,
            length,
            connection,
            lists_fields,
        };
        request.upgrades &= request.lists("upgrade");
        Ok(Some(request))
    }

    /// The query of the target with its question mark; empty if it has none.
    #[must_use]
    pub fn query(&self) -> &'a str {
        let at = self.target.find('?').unwrap_or(self.target.len());
        self.target.get(at..).unwrap_or_default()
    }

    /// The values of all fields with this name.
    pub fn values<'s>(&'s self, name: &'s str) -> impl Iterator<Item = &'a [u8]> + 's {
        self.fields.iter().filter(move |field| field.is(name)).map(|field| field.value)
    }

    /// The value of a cookie (RFC 6265 section 4.2).
    #[must_use]
    pub fn cookie(&self, name: &str) -> Option<&'a [u8]> {
        let pairs = self.values("cookie").flat_map(|value| value.split(|byte| *byte == b';'));
        pairs.map(<[u8]>::trim_ascii).find_map(|pair| {
            let rest = pair.strip_prefix(name.as_bytes())?;
            rest.strip_prefix(b"=")
        })
    }

    /// Whether the field is for this connection alone (RFC 9110 section 7.6.1).
    #[must_use]
    pub fn is_hop_by_hop(&self, field: &Field<'_>) -> bool {
        ["connection", "keep-alive", "proxy-connection", "te"].iter().any(|name| field.is(name))
            || self.lists(field.name)
    }

    /// Whether the Connection field lists `token`.
    pub(crate) fn lists(&self, token: &str) -> bool {
        if !self.lists_fields && !USUAL.iter().any(|usual| usual.eq_ignore_ascii_case(token)) {
            return false;
        }
        let fields = self.fields.get(self.connection.clone()).unwrap_or_default();
        tokens(fields).any(|own| own.eq_ignore_ascii_case(token.as_bytes()))
    }
}

/// The next line without its end.
fn line<'a>(bytes: &'a [u8], at: &mut usize) -> Result<Option<&'a [u8]>, Refusal> {
    let rest = bytes.get(*at..).unwrap_or_default();
    let Some(end) = rest.iter().position(|byte| *byte == b'\n') else {
        return Ok(None);
    };
    let (line, _) = rest.split_at_checked(end).ok_or(Refusal::BareLine)?;
    let line = line.strip_suffix(b"\r").ok_or(Refusal::BareLine)?;
    if line.contains(&b'\r') {
        return Err(Refusal::BareLine);
    }
    *at += end + 1;
    Ok(Some(line))
}

pub(crate) const fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric()
        || matches!(
            byte,
            b'!' | b'#'
                | b'$'
                | b'%'
                | b'&'
                | b'\''
                | b'*'
                | b'+'
                | b'-'
                | b'.'
                | b'^'
                | b'_'
                | b'`'
                | b'|'
                | b'~'
        )
}

fn token(bytes: &[u8]) -> Option<&str> {
    let is = !bytes.is_empty() && bytes.iter().all(|byte| is_token(*byte));
    std::str::from_utf8(bytes).ok().filter(|_| is)
}

fn request_line(line: &[u8]) -> Result<(&str, &str, u8), Refusal> {
    let mut words = line.split(|byte| *byte == b' ');
    let (Some(method), Some(target), Some(version), None) =
        (words.next(), words.next(), words.next(), words.next())
    else {
        return Err(Refusal::RequestLine);
    };
    let method = token(method).ok_or(Refusal::RequestLine)?;
    let visible = !target.is_empty() && target.iter().all(u8::is_ascii_graphic);
    let target = std::str::from_utf8(target).ok().filter(|_| visible);
    let target = target.ok_or(Refusal::Target)?;
    let minor = match version {
        b"HTTP/1.1" => 1,
        b"HTTP/1.0" => 0,
        version if version.starts_with(b"HTTP/") => return Err(Refusal::Version),
        _ => return Err(Refusal::RequestLine),
    };
    Ok((method, target, minor))
}

fn field(line: &[u8]) -> Result<Field<'_>, Refusal> {
    if matches!(line.first(), Some(b' ' | b'\t')) {
        return Err(Refusal::Folded);
    }
    let colon = line.iter().position(|byte| *byte == b':').ok_or(Refusal::FieldName)?;
    let (name, value) = line.split_at_checked(colon).ok_or(Refusal::FieldName)?;
    let name = token(name).ok_or(Refusal::FieldName)?;
    let value = value.get(1..).unwrap_or_default();
    let allowed = |byte: &u8| *byte == b'\t' || (*byte >= 0x20 && *byte != 0x7f);
    if !value.iter().all(allowed) {
        return Err(Refusal::FieldValue);
    }
    Ok(Field { name, value: value.trim_ascii() })
}

/// The path of a target, and the authority if it names one (RFC 9112 section 3.2).
fn split_target<'a>(method: &str, target: &'a str) -> Result<(&'a str, Option<&'a str>), Refusal> {
    if method == "CONNECT" {
        return Err(Refusal::Connect);
    }
    if target == "*" && method == "OPTIONS" {
        return Ok((target, None));
    }
    if target.contains('#') {
        return Err(Refusal::Target);
    }
    let path = |target: &'a str| target.split_once('?').map_or(target, |(path, _)| path);
    if target.starts_with('/') {
        return Ok((path(target), None));
    }
    let scheme = target.get(..7).is_some_and(|scheme| scheme.eq_ignore_ascii_case("http://"));
    let rest = target.get(7..).filter(|_| scheme).ok_or(Refusal::Target)?;
    let end = rest.find(['/', '?']).unwrap_or(rest.len());
    let (authority, rest) = rest.split_at_checked(end).ok_or(Refusal::Target)?;
    let path = if rest.starts_with('/') { path(rest) } else { "/" };
    Ok((path, Some(authority)))
}

fn has(fields: &[Field<'_>], name: &str) -> bool {
    fields.iter().any(|field| field.is(name))
}

/// From the first field with the name Connection to the last: what it lists is asked for
/// each field, and most requests have none or one.
fn named_connection(fields: &[Field<'_>]) -> Range<usize> {
    let is = |field: &Field<'_>| field.is("connection");
    let Some(first) = fields.iter().position(is) else { return 0..0 };
    first..fields.iter().rposition(is).map_or(first, |last| last + 1)
}

/// The elements of all fields with the name Connection (RFC 9110 section 5.6.1).
fn tokens<'a>(fields: &'a [Field<'a>]) -> impl Iterator<Item = &'a [u8]> {
    let values = fields.iter().filter(|field| field.is("connection"));
    let elements = values.flat_map(|field| field.value.split(|byte| *byte == b','));
    elements.map(<[u8]>::trim_ascii).filter(|token| !token.is_empty())
}

fn host<'a>(
    fields: &[Field<'a>],
    minor: u8,
    authority: Option<&'a str>,
) -> Result<&'a str, Refusal> {
    let mut hosts = fields.iter().filter(|field| field.is("host"));
    let (first, second) = (hosts.next(), hosts.next());
    if second.is_some() {
        return Err(Refusal::ManyHosts);
    }
    let Some(first) = first else {
        if minor == 1 {
            return Err(Refusal::NoHost);
        }
        return authority.map_or(Ok(""), checked_host);
    };
    let host = std::str::from_utf8(first.value).map_err(|_| Refusal::Host)?;
    let host = checked_host(host)?;
    match authority {
        Some(authority) if !authority.eq_ignore_ascii_case(host) => Err(Refusal::HostMismatch),
        _ => Ok(host),
    }
}

fn checked_host(host: &str) -> Result<&str, Refusal> {
    let allowed = |byte: u8| {
        byte.is_ascii_alphanumeric()
            || matches!(byte, b'-' | b'.' | b'_' | b'~' | b':' | b'[' | b']' | b'%')
    };
    if host.bytes().all(allowed) { Ok(host) } else { Err(Refusal::Host) }
}

fn body(fields: &[Field<'_>], minor: u8) -> Result<Body, Refusal> {
    let mut lengths = fields.iter().filter(|field| field.is("content-length"));
    let (length, other) = (lengths.next(), lengths.next());
    let mut codings = fields.iter().filter(|field| field.is("transfer-encoding"));
    let (coding, second) = (codings.next(), codings.next());
    match (length, coding) {
        (Some(_), Some(_)) => Err(Refusal::LengthAndCoding),
        (None, Some(_)) if minor == 0 => Err(Refusal::CodingBefore11),
        (None, Some(coding))
            if second.is_none() && coding.value.eq_ignore_ascii_case(b"chunked") =>
        {
            Ok(Body::Chunked)
        }
        (None, Some(_)) => Err(Refusal::Coding),
        (Some(_), None) if other.is_some() => Err(Refusal::ManyLengths),
        (Some(length), None) => {
            // More than 2^53 is no length that every backend reads in the same way.
            let number = decimal(length.value).filter(|number| *number < 1 << 53);
            number.map(Body::Length).ok_or(Refusal::Length)
        }
        (None, None) => Ok(Body::Length(0)),
    }
}

pub(crate) fn decimal(digits: &[u8]) -> Option<u64> {
    let is = !digits.is_empty() && digits.iter().all(u8::is_ascii_digit);
    std::str::from_utf8(digits).ok().filter(|_| is)?.parse().ok()
}

/// A field that the Connection field lists is removed: never one that says where the
/// request goes or how long it is. Whether it lists any.
fn check_connection(fields: &[Field<'_>]) -> Result<bool, Refusal> {
    let vital = ["host", "content-length", "transfer-encoding", "cookie", "authorization"];
    let is_of = |names: &[&str], token: &[u8]| {
        names.iter().any(|name| token.eq_ignore_ascii_case(name.as_bytes()))
    };
    let mut lists_fields = false;
    for token in tokens(fields).filter(|token| !is_of(&USUAL, token)) {
        if is_of(&vital, token) {
            return Err(Refusal::Connection);
        }
        lists_fields = true;
    }
    Ok(lists_fields)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Option<Request<'_>>, Refusal> {
        Request::parse(text.as_bytes())
    }

    #[test]
    fn a_request_is_read_whole() {
        let text = "\r\nPOST http://A.example:81/x/y?z=1 HTTP/1.1\r\nHost: a.example:81\r\n\
                    Cookie: a=1; b=22\r\nContent-Length: 12\r\n\r\nrest";
        let request = parse(text).unwrap().unwrap();
        assert_eq!((request.method, request.path, request.host), ("POST", "/x/y", "a.example:81"));
        assert_eq!((request.body, request.length), (Body::Length(12), text.len() - 4));
        assert_eq!((request.cookie("b"), request.cookie("c")), (Some(&b"22"[..]), None));
        for cut in 0..request.length {
            assert_eq!(parse(&text[..cut]), Ok(None), "{cut}");
        }
    }

    #[test]
    fn what_two_parsers_could_read_differently_is_refused_by_name() {
        let with = |fields: &str| format!("GET / HTTP/1.1\r\nHost: a\r\n{fields}\r\n");
        for (fields, refusal) in [
            ("Content-Length: 1\r\nTransfer-Encoding: chunked\r\n", Refusal::LengthAndCoding),
            ("Content-Length: 1\r\nContent-Length: 1\r\n", Refusal::ManyLengths),
            ("Content-Length: 1, 1\r\n", Refusal::Length),
            ("Content-Length: +1\r\n", Refusal::Length),
            ("Content-Length: 99999999999999999999\r\n", Refusal::Length),
            ("Content-Length:\r\n", Refusal::Length),
            ("Transfer-Encoding: gzip, chunked\r\n", Refusal::Coding),
            ("Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n", Refusal::Coding),
            ("Transfer-Encoding: xchunked\r\n", Refusal::Coding),
            ("A: b\r\n c\r\n", Refusal::Folded),
            ("A : b\r\n", Refusal::FieldName),
            (": b\r\n", Refusal::FieldName),
            ("A\r\n", Refusal::FieldName),
            ("A: b\0\r\n", Refusal::FieldValue),
            ("A: b\n", Refusal::BareLine),
            ("A: b\rc\r\n", Refusal::BareLine),
            ("Host: b\r\n", Refusal::ManyHosts),
            ("Connection: close, Content-Length\r\n", Refusal::Connection),
        ] {
            assert_eq!(parse(&with(fields)), Err(refusal), "{fields:?}");
        }
        for (text, refusal) in [
            ("GET  / HTTP/1.1\r\nHost: a\r\n\r\n", Refusal::RequestLine),
            ("GET /\r\n\r\n", Refusal::RequestLine),
            ("GET / HTTP/2.0\r\nHost: a\r\n\r\n", Refusal::Version),
            ("GET /#x HTTP/1.1\r\nHost: a\r\n\r\n", Refusal::Target),
            ("GET https://a/ HTTP/1.1\r\nHost: a\r\n\r\n", Refusal::Target),
            ("CONNECT a:443 HTTP/1.1\r\nHost: a\r\n\r\n", Refusal::Connect),
            ("GET / HTTP/1.1\r\n\r\n", Refusal::NoHost),
            ("GET / HTTP/1.1\r\nHost: a b\r\n\r\n", Refusal::Host),
            ("GET http://b/ HTTP/1.1\r\nHost: a\r\n\r\n", Refusal::HostMismatch),
            ("POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n", Refusal::CodingBefore11),
        ] {
            assert_eq!(parse(text), Err(refusal), "{text:?}");
        }
    }

    #[test]
    fn too_many_fields_are_refused() {
        let fields = "A: b\r\n".repeat(MAX_FIELDS);
        assert_eq!(
            parse(&format!("GET / HTTP/1.1\r\nHost: a\r\n{fields}\r\n")),
            Err(Refusal::TooManyFields)
        );
    }
}
