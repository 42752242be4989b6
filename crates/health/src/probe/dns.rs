//! A query over UDP (RFC 1035, section 4).
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};

use tokio::net::UdpSocket;

/// Types of records: an address of the family that the backend has.
const A: u16 = 1;
const AAAA: u16 = 28;
const IN: u16 = 1;
/// Codes of answers that pass: the server works, whether or not it knows the name.
const NOERROR: u8 = 0;
const NXDOMAIN: u8 = 3;
const HEADER: usize = 12;

pub(super) async fn ask(at: SocketAddr, name: &str) -> Result<(), String> {
    let failed = |error: std::io::Error| format!("DNS: {error}");
    let any =
        if at.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
    let socket = UdpSocket::bind(SocketAddr::new(any, 0)).await.map_err(failed)?;
    socket.connect(at).await.map_err(failed)?;
    // The socket takes answers from the backend alone, to a port of its own.
    let id = socket.local_addr().map_err(failed)?.port().rotate_left(7);
    let kind = if at.is_ipv4() { A } else { AAAA };
    let query = query(id, name, kind).ok_or_else(|| format!("'{name}' is not a domain name"))?;
    socket.send(&query).await.map_err(failed)?;
    let mut answer = [0; 4096];
    loop {
        let length = socket.recv(&mut answer).await.map_err(failed)?;
        match judge(&query, answer.get(..length).unwrap_or_default()) {
            // Another answer may follow.
            None => {}
            Some(NOERROR | NXDOMAIN) => return Ok(()),
            Some(code) => return Err(format!("DNS answer of code {code}")),
        }
    }
}

/// The query for records of type `kind` of `name`; `None` if that is no domain name.
#[must_use]
pub fn query(id: u16, name: &str, kind: u16) -> Option<Vec<u8>> {
    let mut query = Vec::with_capacity(HEADER + name.len() + 6);
    // Recursion desired, one question.
    query.extend(id.to_be_bytes());
    query.extend([1, 0, 0, 1, 0, 0, 0, 0, 0, 0]);
    let name = name.strip_suffix('.').unwrap_or(name);
    for label in name.split('.').filter(|_| !name.is_empty()) {
        let length = u8::try_from(label.len()).ok().filter(|length| (1..64).contains(length))?;
        query.push(length);
        query.extend(label.bytes());
    }
    query.push(0);
    (query.len() <= HEADER + 255).then_some(())?;
    query.extend([kind, IN].map(u16::to_be_bytes).as_flattened());
    Some(query)
}

/// The code of `answer` if it is one to `query`: the same id and question.
#[must_use]
pub fn judge(query: &[u8], answer: &[u8]) -> Option<u8> {
    let (asked, answered) = (query.get(..HEADER)?, answer.get(..HEADER)?);
    let is_answer = answered.get(2)? & 0x80 != 0;
    let same_id = asked.get(..2)? == answered.get(..2)?;
    let code = answered.get(3)? & 0x0f;
    let one_question = answered.get(4..6)? == [0, 1];
    let question = query.get(HEADER..)?;
    // A server that refuses or fails may leave the question out.
    let same_question = if one_question {
        answer.get(HEADER..HEADER + question.len())?.eq_ignore_ascii_case(question)
    } else {
        code != NOERROR
    };
    (is_answer && same_id && same_question).then_some(code)
}
