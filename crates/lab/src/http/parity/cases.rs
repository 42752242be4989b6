//! What is asked: methods by framings, odd spellings, errors, pipelines and attempts at
//! smuggling.
use serde::{Deserialize, Serialize};

/// The bytes of one connection.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Case {
    pub(super) name: String,
    pub(super) text: String,
    /// The methods of the requests that want a response.
    pub(super) methods: Vec<String>,
}

impl Case {
    fn new(name: impl Into<String>, text: impl Into<String>, methods: &[&str]) -> Self {
        let methods = methods.iter().map(|&own| own.to_owned()).collect();
        Self { name: name.into(), text: text.into(), methods }
    }

    /// One GET of `/echo` with these fields besides Host.
    fn fields(name: &str, fields: &str) -> Self {
        let text = format!("GET /echo HTTP/1.1\r\nHost: lab\r\n{fields}\r\n");
        Self::new(format!("field: {name}"), text, &["GET"])
    }

    /// A POST to `/echo` of which all behind the Host field is given.
    fn post(kind: &str, name: &str, rest: &str) -> Self {
        let text = format!("POST /echo HTTP/1.1\r\nHost: lab\r\n{rest}");
        Self::new(format!("{kind}: {name}"), text, &["POST"])
    }

    /// A request with this first line.
    fn line(name: &str, line: &str) -> Self {
        Self::new(format!("line: {name}"), format!("{line}\r\nHost: lab\r\n\r\n"), &["GET"])
    }
}

const METHODS: [&str; 10] =
    ["GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "PATCH", "TRACE", "PROPFIND", "FOO"];
/// What the origin answers under these names.
const ANSWERS: [&str; 13] = [
    "length", "chunked", "trailers", "close", "204", "304", "103", "empty", "302", "404", "500",
    "fields", "echo",
];

/// Every case.
pub(super) fn all() -> Vec<Case> {
    let mut all = answers();
    all.extend(bodies());
    all.extend(spellings());
    all.extend(lines());
    all.extend(smuggling());
    all.extend(pipelines());
    all
}

/// Each method with each framing of a response; some also as HTTP/1.0 and with an end of
/// the connection.
fn answers() -> Vec<Case> {
    let mut all = Vec::new();
    for answer in ANSWERS {
        for method in METHODS {
            let length =
                if ["POST", "PUT"].contains(&method) { "Content-Length: 0\r\n" } else { "" };
            let text = format!("{method} /{answer} HTTP/1.1\r\nHost: lab\r\n{length}\r\n");
            all.push(Case::new(format!("1.1: {method} {answer}"), text, &[method]));
        }
        for method in ["GET", "HEAD"] {
            let text = format!("{method} /{answer} HTTP/1.0\r\nHost: lab\r\n\r\n");
            all.push(Case::new(format!("1.0: {method} {answer}"), text, &[method]));
        }
        let text = format!("GET /{answer} HTTP/1.1\r\nHost: lab\r\nConnection: close\r\n\r\n");
        all.push(Case::new(format!("ends: GET {answer}"), text, &["GET"]));
    }
    all
}

/// Bodies of requests in each framing.
fn bodies() -> Vec<Case> {
    let (long, coded) = ("abcdefghij".repeat(300), "Transfer-Encoding: chunked\r\n\r\n");
    let mut all = Vec::new();
    for (name, rest) in [
        ("no body", "Content-Length: 0\r\n\r\n".to_owned()),
        ("five bytes", "Content-Length: 5\r\n\r\nabcde".to_owned()),
        ("three segments", format!("Content-Length: {}\r\n\r\n{long}", long.len())),
        ("one chunk", format!("{coded}5\r\nabcde\r\n0\r\n\r\n")),
        ("several chunks", format!("{coded}5\r\nabcde\r\n00A\r\n0123456789\r\n0\r\n\r\n")),
        ("a long chunk", format!("{coded}{:x}\r\n{long}\r\n0\r\n\r\n", long.len())),
        ("a chunk extension", format!("{coded}5;a=b\r\nabcde\r\n0\r\n\r\n")),
        ("a trailer", format!("{coded}5\r\nabcde\r\n0\r\nX-Sum: 1\r\n\r\n")),
        ("Expect", "Content-Length: 5\r\nExpect: 100-continue\r\n\r\nabcde".to_owned()),
        ("no length", "\r\n".to_owned()),
    ] {
        all.push(Case::post("body", name, &rest));
    }
    all
}

/// Fields that are odd, and right.
fn spellings() -> Vec<Case> {
    let many: String = (0..60).map(|at| format!("X-Many-{at}: {at}\r\n")).collect();
    [
        ("upper case", "X-ODD: a\r\n"),
        ("no space", "X-Odd:a\r\n"),
        ("spaces around", "X-Odd:   a  \r\n"),
        ("tabs around", "X-Odd:\ta\t\r\n"),
        ("empty", "X-Odd:\r\n"),
        ("twice", "X-Odd: a\r\nX-Odd: b\r\n"),
        ("a colon", "X-Odd: a:b\r\n"),
        ("beyond ASCII", "X-Odd: \u{e9}\r\n"),
        ("a token's signs", "X!#$%&'*+-.^_`|~: a\r\n"),
        ("a quoted string", "X-Odd: \"a, b\"\r\n"),
        ("4,000 bytes", &format!("X-Odd: {}\r\n", "x".repeat(4_000))),
        ("sixty", &many),
        ("cookies", "Cookie: a=1; b=2\r\n"),
        ("two cookies", "Cookie: a=1\r\nCookie: b=2\r\n"),
        ("hop by hop", "Connection: X-Odd\r\nX-Odd: a\r\n"),
        ("keep alive", "Connection: keep-alive\r\nKeep-Alive: timeout=5\r\n"),
        ("TE", "TE: trailers\r\nConnection: TE\r\n"),
        ("Upgrade", "Upgrade: foo\r\nConnection: upgrade\r\n"),
        ("Proxy-Connection", "Proxy-Connection: keep-alive\r\n"),
        ("Range", "Range: bytes=0-3\r\n"),
        ("spoofed", "X-Forwarded-For: 9.9.9.9\r\n"),
        ("Max-Forwards", "Max-Forwards: 0\r\n"),
        ("Date", "Date: Mon, 23 Nov 2026 20:00:00 GMT\r\n"),
    ]
    .into_iter()
    .map(|(name, fields)| Case::fields(name, fields))
    .collect()
}

/// First lines: targets, versions and methods.
fn lines() -> Vec<Case> {
    [
        ("query", "GET /echo?a=b&c=/echo HTTP/1.1"),
        ("dots", "GET /a/../echo HTTP/1.1"),
        ("two slashes", "GET //echo HTTP/1.1"),
        ("percent", "GET /%65cho/echo HTTP/1.1"),
        ("odd percent", "GET /%zz/echo HTTP/1.1"),
        ("absolute", "GET http://lab/echo HTTP/1.1"),
        ("absolute, another host", "GET http://other/echo HTTP/1.1"),
        ("fragment", "GET /echo#a HTTP/1.1"),
        ("star", "OPTIONS * HTTP/1.1"),
        ("no slash", "GET echo HTTP/1.1"),
        ("a space in the target", "GET /a b/echo HTTP/1.1"),
        ("two spaces", "GET  /echo HTTP/1.1"),
        ("a tab", "GET\t/echo HTTP/1.1"),
        ("a space at the end", "GET /echo HTTP/1.1 "),
        ("beyond ASCII", "GET /\u{e9}/echo HTTP/1.1"),
        ("quotes", "GET /\"<>/echo HTTP/1.1"),
        ("lower case", "get /echo HTTP/1.1"),
        ("no method", "/echo HTTP/1.1"),
        ("a bad method", "G@T /echo HTTP/1.1"),
        ("version 0.9", "GET /echo"),
        ("version 1.2", "GET /echo HTTP/1.2"),
        ("version 2.0", "GET /echo HTTP/2.0"),
        ("version 1.10", "GET /echo HTTP/1.10"),
        ("no version", "GET /echo HTTP/"),
        ("http in lower case", "GET /echo http/1.1"),
        ("CONNECT", "CONNECT lab:80 HTTP/1.1"),
        ("an empty line before", "\r\nGET /echo HTTP/1.1"),
        ("a long target", &format!("GET /{}/echo HTTP/1.1", "x".repeat(4_000))),
    ]
    .into_iter()
    .map(|(name, line)| Case::line(name, line))
    .collect()
}

/// What two readers could take for different requests.
fn smuggling() -> Vec<Case> {
    let next = "GET /404 HTTP/1.1\r\nHost: lab\r\n\r\n";
    let many: String = (0..101).map(|at| format!("X-{at}: {at}\r\n")).collect();
    let mut all = Vec::new();
    for (name, rest) in [
        (
            "length and coding",
            format!("Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n{next}"),
        ),
        (
            "coding and length",
            format!("Transfer-Encoding: chunked\r\nContent-Length: 4\r\n\r\n0\r\n\r\n{next}"),
        ),
        ("two lengths", "Content-Length: 5\r\nContent-Length: 6\r\n\r\nabcdef".to_owned()),
        ("the same length twice", "Content-Length: 5\r\nContent-Length: 5\r\n\r\nabcde".to_owned()),
        ("a list of lengths", "Content-Length: 5, 5\r\n\r\nabcde".to_owned()),
        ("a length with a sign", "Content-Length: +5\r\n\r\nabcde".to_owned()),
        ("a negative length", "Content-Length: -5\r\n\r\nabcde".to_owned()),
        ("a hexadecimal length", "Content-Length: 0x5\r\n\r\nabcde".to_owned()),
        ("an empty length", "Content-Length:\r\n\r\n".to_owned()),
        ("a huge length", "Content-Length: 99999999999999999999\r\n\r\n".to_owned()),
        ("another coding", "Transfer-Encoding: gzip\r\n\r\n".to_owned()),
        ("chunked twice", "Transfer-Encoding: chunked, chunked\r\n\r\n0\r\n\r\n".to_owned()),
        ("a coding before chunked", "Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n".to_owned()),
        ("a coding behind chunked", "Transfer-Encoding: chunked, gzip\r\n\r\n0\r\n\r\n".to_owned()),
        ("xchunked", "Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n".to_owned()),
        ("identity", "Transfer-Encoding: identity\r\nContent-Length: 5\r\n\r\nabcde".to_owned()),
        ("CHUNKED", "Transfer-Encoding: CHUNKED\r\n\r\n0\r\n\r\n".to_owned()),
        ("a vertical tab", "Transfer-Encoding:\x0bchunked\r\n\r\n0\r\n\r\n".to_owned()),
        ("a space before the colon", "Content-Length : 5\r\n\r\nabcde".to_owned()),
        ("a folded field", "X-Odd: a\r\n b\r\nContent-Length: 0\r\n\r\n".to_owned()),
        ("a space before a field", " X-Odd: a\r\nContent-Length: 0\r\n\r\n".to_owned()),
        ("a bare LF", "X-Odd: a\nContent-Length: 0\r\n\r\n".to_owned()),
        ("a bare CR", "X-Odd: a\rb\r\nContent-Length: 0\r\n\r\n".to_owned()),
        ("a NUL", "X-Odd: a\0b\r\nContent-Length: 0\r\n\r\n".to_owned()),
        ("no colon", "X-Odd\r\nContent-Length: 0\r\n\r\n".to_owned()),
        ("no name", ": a\r\nContent-Length: 0\r\n\r\n".to_owned()),
        ("a name with a space", "X Odd: a\r\nContent-Length: 0\r\n\r\n".to_owned()),
        ("two hosts", "Host: other\r\nContent-Length: 0\r\n\r\n".to_owned()),
        ("the same host twice", "Host: lab\r\nContent-Length: 0\r\n\r\n".to_owned()),
        ("a bad chunk size", "Transfer-Encoding: chunked\r\n\r\nx\r\n\r\n".to_owned()),
        (
            "a huge chunk size",
            "Transfer-Encoding: chunked\r\n\r\nfffffffffffffffff\r\n\r\n".to_owned(),
        ),
        ("a chunk with a bare LF", "Transfer-Encoding: chunked\r\n\r\n5\nabcde\n0\n\n".to_owned()),
        (
            "a chunk that is too long",
            "Transfer-Encoding: chunked\r\n\r\n5\r\nabcdefg\r\n0\r\n\r\n".to_owned(),
        ),
        ("a header of 9,000 bytes", format!("X-Long: {}\r\n\r\n", "x".repeat(9_000))),
        ("101 fields", format!("{many}\r\n")),
        (
            "a length in Connection",
            "Connection: Content-Length\r\nContent-Length: 5\r\n\r\nabcde".to_owned(),
        ),
        ("a host in Connection", "Connection: Host\r\nContent-Length: 0\r\n\r\n".to_owned()),
    ] {
        all.push(Case::post("smuggling", name, &rest));
    }
    for (name, text) in [
        ("no host", "GET /echo HTTP/1.1\r\n\r\n"),
        ("an empty host", "GET /echo HTTP/1.1\r\nHost:\r\n\r\n"),
        ("a bad host", "GET /echo HTTP/1.1\r\nHost: a b\r\n\r\n"),
        ("a host with a path", "GET /echo HTTP/1.1\r\nHost: a/b\r\n\r\n"),
        ("a host with a user", "GET /echo HTTP/1.1\r\nHost: a@b\r\n\r\n"),
        ("a bad port", "GET /echo HTTP/1.1\r\nHost: lab:x\r\n\r\n"),
        ("no host of 1.0", "GET /echo HTTP/1.0\r\n\r\n"),
        ("coding of 1.0", "POST /echo HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"),
        ("all lines end by LF", "GET /echo HTTP/1.1\nHost: lab\n\n"),
    ] {
        all.push(Case::new(format!("smuggling: {name}"), text, &["GET"]));
    }
    all
}

/// Several requests at once.
fn pipelines() -> Vec<Case> {
    let one = |method: &str, path: &str, body: &str| {
        let length = if body.is_empty() {
            String::new()
        } else {
            format!("Content-Length: {}\r\n", body.len())
        };
        format!("{method} /{path} HTTP/1.1\r\nHost: lab\r\n{length}\r\n{body}")
    };
    let chunked = "POST /echo HTTP/1.1\r\nHost: lab\r\nTransfer-Encoding: chunked\r\n\r\n\
                   5\r\nabcde\r\n0\r\n\r\n";
    let (get, last) = (one("GET", "length", ""), one("GET", "404", ""));
    [
        ("two", [get.clone(), last.clone()].concat(), vec!["GET", "GET"]),
        (
            "three framings",
            [get.clone(), one("GET", "chunked", ""), one("GET", "204", "")].concat(),
            vec!["GET"; 3],
        ),
        ("a body", [one("POST", "echo", "abcde"), last.clone()].concat(), vec!["POST", "GET"]),
        ("a chunked body", [chunked.to_owned(), last.clone()].concat(), vec!["POST", "GET"]),
        ("HEAD", [one("HEAD", "length", ""), last.clone()].concat(), vec!["HEAD", "GET"]),
        ("ten", get.repeat(10), vec!["GET"; 10]),
        ("behind hints", [one("GET", "103", ""), last.clone()].concat(), vec!["GET", "GET"]),
        ("an error behind", [get.clone(), "BAD\r\n\r\n".to_owned()].concat(), vec!["GET", "GET"]),
        ("behind an end", [one("GET", "close", ""), last].concat(), vec!["GET"]),
    ]
    .into_iter()
    .map(|(name, text, methods)| Case::new(format!("pipeline: {name}"), text, &methods))
    .collect()
}
