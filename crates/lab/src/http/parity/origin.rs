//! The server behind both load balancers: it answers as the path says, in every framing
//! that HTTP/1.1 has, or with the request as it came.
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::Duration;

use crate::{LabError, Stop};

/// Fields that load balancers add or own; they say nothing of what the client has sent.
const OWN: [&str; 7] = [
    "x-forwarded-for",
    "x-forwarded-proto",
    "x-forwarded-host",
    "forwarded",
    "x-request-id",
    "connection",
    "keep-alive",
];

/// Serves until the stop.
///
/// # Errors
/// If it can't listen there.
pub(crate) fn serve(at: SocketAddr, stop: &Stop) -> Result<bool, LabError> {
    let what = || LabError::io(format!("listen at {at}"));
    let listener = TcpListener::bind(at).map_err(what())?;
    listener.set_nonblocking(true).map_err(what())?;
    while stop.check().is_ok() {
        match listener.accept() {
            Ok((stream, _)) => drop(std::thread::spawn(move || talk(stream))),
            Err(_) => stop.sleep(Duration::from_millis(2))?,
        }
    }
    Ok(true)
}

/// One connection. Whatever goes wrong ends it, which the client's side notices.
fn talk(mut stream: TcpStream) {
    let ready = stream.set_nonblocking(false).is_ok()
        && stream.set_read_timeout(Some(Duration::from_secs(60))).is_ok()
        && stream.set_nodelay(true).is_ok();
    let mut bytes = Vec::new();
    while ready && let Some(request) = Request::read(&mut stream, &mut bytes) {
        let (answer, goes_on) = request.answer();
        if stream.write_all(&answer).is_err() || !goes_on {
            return;
        }
    }
}

/// A request as it came.
struct Request {
    line: String,
    fields: Vec<(String, String)>,
    body: Vec<u8>,
}

impl Request {
    /// The next request of the connection; `bytes` is what is already there.
    fn read(stream: &mut TcpStream, bytes: &mut Vec<u8>) -> Option<Self> {
        let end = until(stream, bytes, b"\r\n\r\n")?;
        let header = String::from_utf8_lossy(bytes.get(..end)?).into_owned();
        bytes.drain(..end);
        let mut lines = header.trim_end().split("\r\n");
        let line = lines.next()?.to_owned();
        let field = |line: &str| {
            let (name, value) = line.split_once(':').unwrap_or((line, ""));
            (name.to_ascii_lowercase(), value.trim().to_owned())
        };
        let mut request = Self { line, fields: lines.map(field).collect(), body: Vec::new() };
        if request.value("expect").is_some_and(|own| own.eq_ignore_ascii_case("100-continue")) {
            stream.write_all(b"HTTP/1.1 100 Continue\r\n\r\n").ok()?;
        }
        if request.value("transfer-encoding").is_some() {
            loop {
                let end = until(stream, bytes, b"\r\n")?;
                let line = String::from_utf8_lossy(bytes.get(..end)?).into_owned();
                bytes.drain(..end);
                let size = line.split(';').next().unwrap_or_default().trim();
                let size = usize::from_str_radix(size, 16).ok()?;
                if size == 0 {
                    while until(stream, bytes, b"\r\n")? > 2 {
                        let end = until(stream, bytes, b"\r\n")?;
                        bytes.drain(..end);
                    }
                    bytes.drain(..2);
                    break;
                }
                request.body.extend(take(stream, bytes, size)?);
                take(stream, bytes, 2)?;
            }
        } else if let Some(length) = request.value("content-length") {
            let length = length.parse().ok()?;
            request.body = take(stream, bytes, length)?;
        }
        Some(request)
    }

    fn value(&self, name: &str) -> Option<&str> {
        self.fields.iter().find(|(own, _)| own == name).map(|(_, value)| value.as_str())
    }

    /// The answer, and whether the connection goes on behind it.
    fn answer(&self) -> (Vec<u8>, bool) {
        let mut words = self.line.split(' ');
        let (method, target) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
        let is_head = method == "HEAD";
        let path = target.split('?').next().unwrap_or_default();
        let kind = path.rsplit('/').next().unwrap_or_default();
        let closes = self.line.ends_with("/1.0")
            || self.value("connection").is_some_and(|own| own.eq_ignore_ascii_case("close"));
        let text = "The quick brown fox.\n".repeat(20);
        let with = |status: &str, more: &str, body: &str| {
            let shown = if is_head { "" } else { body };
            format!("HTTP/1.1 {status}\r\nX-Origin: 1\r\n{more}\r\n{shown}")
        };
        let length = |body: &str| format!("Content-Length: {}\r\n", body.len());
        let chunks = |trailer: &str| {
            let (a, b) = text.split_at(100);
            format!("{:x}\r\n{a}\r\n{:X};x=y\r\n{b}\r\n0\r\n{trailer}\r\n", a.len(), b.len())
        };
        let coded = "Transfer-Encoding: chunked\r\n";
        let answer = match kind {
            "chunked" => with("200 OK", coded, &chunks("")),
            "trailers" => {
                with("200 OK", &format!("Trailer: x-sum\r\n{coded}"), &chunks("X-Sum: 7\r\n"))
            }
            "close" => with("200 OK", "Connection: close\r\n", &text),
            "204" => with("204 No Content", "", ""),
            "304" => with("304 Not Modified", "ETag: \"a\"\r\n", ""),
            "103" => {
                let hints = "HTTP/1.1 103 Early Hints\r\nLink: </a>; rel=preload\r\n\r\n";
                hints.to_owned() + &with("200 OK", &length(&text), &text)
            }
            "empty" => with("200 OK", "Content-Length: 0\r\n", ""),
            "302" => with("302 Found", "Location: /a\r\nContent-Length: 0\r\n", ""),
            "404" => with("404 Not Found", &length("none\n"), "none\n"),
            "500" => with("500 Internal Server Error", &length("broken\n"), "broken\n"),
            "fields" => with(
                "200 Very OK",
                &format!("SET-Cookie: a=1\r\nset-cookie: b=2\r\nX-Empty:\r\n{}", length("x")),
                "x",
            ),
            "echo" => {
                let body = self.shown();
                with("200 OK", &length(&body), &body)
            }
            _ => with("200 OK", &length(&text), &text),
        };
        (answer.into_bytes(), !closes && kind != "close")
    }

    /// What came, without what load balancers add.
    fn shown(&self) -> String {
        let mut fields: Vec<String> = self
            .fields
            .iter()
            .filter(|(name, _)| !OWN.contains(&name.as_str()))
            .map(|(name, value)| format!("{name}: {value}\n"))
            .collect();
        fields.sort();
        let body = String::from_utf8_lossy(&self.body);
        format!("{}\n{}\n{body}", self.line, fields.concat())
    }
}

/// Reads until `end` is there; the place behind it.
fn until(stream: &mut TcpStream, bytes: &mut Vec<u8>, end: &[u8]) -> Option<usize> {
    loop {
        if let Some(at) = bytes.windows(end.len()).position(|part| part == end) {
            return Some(at + end.len());
        }
        more(stream, bytes)?;
    }
}

fn take(stream: &mut TcpStream, bytes: &mut Vec<u8>, length: usize) -> Option<Vec<u8>> {
    while bytes.len() < length {
        more(stream, bytes)?;
    }
    Some(bytes.drain(..length).collect())
}

fn more(stream: &mut TcpStream, bytes: &mut Vec<u8>) -> Option<()> {
    let mut buffer = [0; 4096];
    let read = stream.read(&mut buffer).ok().filter(|read| *read > 0)?;
    bytes.extend(buffer.get(..read)?);
    Some(())
}
