//! The client: sends the bytes of each case over a connection of its own, and notes what
//! comes back.
use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::path::Path;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use super::cases::Case;
use crate::{LabError, Stop};

/// How long an answer is waited for, before the case counts as one without an answer.
const PATIENCE: Duration = Duration::from_secs(15);

/// A response as the client got it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Response {
    pub(super) status: String,
    /// Names in lower case, in order.
    pub(super) fields: Vec<(String, String)>,
    pub(super) body: String,
}

impl Response {
    pub(super) fn value(&self, name: &str) -> Option<&str> {
        self.fields.iter().find(|(own, _)| own == name).map(|(_, value)| value.as_str())
    }
}

/// The outcome of a case.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Outcome {
    pub(super) responses: Vec<Response>,
    /// How it ended, if not all requests have a response: `closed`, `silent`, or that it
    /// could not be read.
    pub(super) end: String,
}

/// Runs the cases in `file`, and prints the outcomes as a JSON list.
///
/// # Errors
/// If the file can't be read, or the stop is requested.
pub(crate) fn ask(to: SocketAddr, file: &Path, stop: &Stop) -> Result<bool, LabError> {
    let what = || LabError::io(format!("read {}", file.display()));
    let text = std::fs::read(file).map_err(what())?;
    let cases: Vec<Case> =
        serde_json::from_slice(&text).map_err(std::io::Error::from).map_err(what())?;
    let mut outcomes = Vec::new();
    for case in &cases {
        stop.check()?;
        let outcome = one(to, case);
        outcomes.push(outcome);
    }
    let text = serde_json::to_string(&outcomes).map_err(std::io::Error::from);
    println!("{}", text.map_err(what())?);
    Ok(true)
}

fn one(to: SocketAddr, case: &Case) -> Outcome {
    match talk(to, case) {
        Ok(outcome) => outcome,
        Err(error) => Outcome { responses: Vec::new(), end: error.to_string() },
    }
}

fn talk(to: SocketAddr, case: &Case) -> std::io::Result<Outcome> {
    let mut stream = TcpStream::connect_timeout(&to, PATIENCE)?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(Duration::from_millis(200)))?;
    // A refusal may come, and close the connection, before all is sent.
    let _ = stream.write_all(case.text.as_bytes());
    let (mut bytes, deadline) = (Vec::new(), Instant::now() + PATIENCE);
    let mut buffer = [0; 16_384];
    let end = loop {
        match responses(&bytes, case, false) {
            Some(all) if finals(&all) >= case.methods.len() => break "",
            None => break "unreadable",
            Some(_) => {}
        }
        match stream.read(&mut buffer) {
            Ok(0) => break "closed",
            Ok(read) => bytes.extend(buffer.get(..read).unwrap_or_default()),
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                if Instant::now() >= deadline {
                    break "silent";
                }
            }
            // Whether it is closed or reset is a matter of what was not read.
            Err(_) => break "closed",
        }
    };
    let _ = stream.shutdown(Shutdown::Both);
    let responses = responses(&bytes, case, end == "closed").unwrap_or_default();
    let whole = finals(&responses) >= case.methods.len();
    let end = if whole { String::new() } else { end.to_owned() };
    Ok(Outcome { responses, end })
}

fn finals(all: &[Response]) -> usize {
    all.iter().filter(|own| !own.status.starts_with('1')).count()
}

/// The whole responses in `bytes`; `None` if they are none.
fn responses(mut bytes: &[u8], case: &Case, closed: bool) -> Option<Vec<Response>> {
    let mut all: Vec<Response> = Vec::new();
    let mut methods = case.methods.iter();
    let mut method = methods.next();
    while let Some(at) = bytes.windows(4).position(|four| four == b"\r\n\r\n") {
        let header = String::from_utf8_lossy(bytes.get(..at)?).into_owned();
        let rest = bytes.get(at + 4..)?;
        let mut lines = header.split("\r\n");
        let status = lines.next()?.strip_prefix("HTTP/1.")?.get(2..)?.to_owned();
        let mut fields: Vec<(String, String)> = lines
            .map(|line| line.split_once(':').unwrap_or((line, "")))
            .map(|(name, value)| (name.to_ascii_lowercase(), value.trim().to_owned()))
            .collect();
        fields.sort();
        let mut response = Response { status, fields, body: String::new() };
        let interim = response.status.starts_with('1');
        let is_empty = interim
            || method.is_some_and(|method| method == "HEAD")
            || ["204", "304"].iter().any(|own| response.status.starts_with(own));
        let length = response.value("content-length").map(str::parse::<usize>);
        let (body, behind) = match length {
            _ if is_empty => (Vec::new(), rest),
            _ if response.value("transfer-encoding").is_some() => match dechunked(rest) {
                Some(found) => found,
                None => return Some(all),
            },
            Some(length) => match rest.split_at_checked(length.ok()?) {
                Some((body, behind)) => (body.to_vec(), behind),
                None => return Some(all),
            },
            None if closed => (rest.to_vec(), &[][..]),
            None => return Some(all),
        };
        response.body = String::from_utf8_lossy(&body).into_owned();
        all.push(response);
        bytes = behind;
        if !interim {
            method = methods.next();
        }
    }
    Some(all)
}

/// The content of a chunked body with its trailers in lower case, and what is behind.
fn dechunked(mut bytes: &[u8]) -> Option<(Vec<u8>, &[u8])> {
    let mut content = Vec::new();
    loop {
        let end = bytes.windows(2).position(|two| two == b"\r\n")?;
        let line = String::from_utf8_lossy(bytes.get(..end)?).into_owned();
        let size = usize::from_str_radix(line.split(';').next()?.trim(), 16).ok()?;
        bytes = bytes.get(end + 2..)?;
        if size > 0 {
            content.extend(bytes.get(..size)?);
            bytes = bytes.get(size + 2..)?;
            continue;
        }
        loop {
            let end = bytes.windows(2).position(|two| two == b"\r\n")?;
            let line = bytes.get(..end)?;
            bytes = bytes.get(end + 2..)?;
            if line.is_empty() {
                return Some((content, bytes));
            }
            content.extend(line.to_ascii_lowercase());
        }
    }
}
