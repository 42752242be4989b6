//! The header as the backend gets it.
use std::io::Write as _;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use arrayvec::ArrayVec;

use crate::blocks::Block;
use crate::changes::Changes;
use crate::request::Request;

/// Fields that only the agent writes; a client's would be a lie.
const OWN: [&str; 6] = [
    "x-forwarded-for",
    "x-forwarded-proto",
    "x-forwarded-host",
    "x-real-ip",
    "forwarded",
    "x-request-id",
];

/// What is added to a request.
#[derive(Clone, Copy, Debug)]
pub struct Additions {
    /// Who has sent it.
    pub client: SocketAddr,
    /// What it came by: `http` or `https`.
    pub scheme: &'static str,
    /// Its number.
    pub id: u64,
}

/// Where a header is written.
pub(crate) trait Sink {
    /// Appends. `None`: there is no room.
    fn push(&mut self, bytes: &[u8]) -> Option<()>;
}

impl Sink for Block {
    fn push(&mut self, bytes: &[u8]) -> Option<()> {
        Self::push(self, bytes)
    }
}

impl Sink for Vec<u8> {
    fn push(&mut self, bytes: &[u8]) -> Option<()> {
        self.extend_from_slice(bytes);
        Some(())
    }
}

/// The header of `request` as a backend gets it, with the `changes` of its service. `None`:
/// the client's address does not fit into the fields that name it, which cannot be.
#[must_use]
pub fn forwarded_header(
    request: &Request<'_>,
    added: &Additions,
    changes: &Changes<'_>,
) -> Option<Vec<u8>> {
    let mut header = Vec::with_capacity(request.length + 256);
    write(&mut header, request, added, changes).map(|()| header)
}

/// Writes the header of `request` into `block`. `None`: it does not fit.
pub(crate) fn write(
    block: &mut impl Sink,
    request: &Request<'_>,
    added: &Additions,
    changes: &Changes<'_>,
) -> Option<()> {
    for part in [request.method, " ", request.target, " HTTP/1."] {
        block.push(part.as_bytes())?;
    }
    block.push(if request.minor == 0 { b"0\r\n" } else { b"1\r\n" })?;
    for field in &request.fields {
        let own = OWN.iter().any(|name| field.is(name));
        // An Upgrade is meant for the backend, and is listed in the Connection field.
        let kept = field.is("upgrade") && request.upgrades;
        let changed = changes.drop(field.name.as_bytes());
        if own
            || changed
            || (request.is_hop_by_hop(field) && !kept)
            || (field.is("upgrade") && !kept)
        {
            continue;
        }
        for part in [field.name.as_bytes(), b": ", field.value, b"\r\n"] {
            block.push(part)?;
        }
    }
    let connection = match (request.upgrades, keeps(request)) {
        (true, _) => "Connection: Upgrade\r\n",
        (false, Some(false)) => "Connection: close\r\n",
        (false, Some(true)) => "Connection: keep-alive\r\n",
        (false, None) => "",
    };
    block.push(connection.as_bytes())?;
    for part in changes.written().flatten() {
        block.push(part)?;
    }
    forwarded(block, request, added, changes)?;
    block.push(b"\r\n")
}

/// Whether the client asks for the connection to last, if it says so.
fn keeps(request: &Request<'_>) -> Option<bool> {
    match (request.lists("close"), request.lists("keep-alive")) {
        (true, _) => Some(false),
        (false, true) => Some(true),
        (false, false) => None,
    }
}

fn field(block: &mut impl Sink, changes: &Changes<'_>, name: &str, value: &[&[u8]]) -> Option<()> {
    if changes.drop(name.as_bytes()) {
        return Some(());
    }
    block.push(name.as_bytes())?;
    block.push(b": ")?;
    value.iter().try_for_each(|part| block.push(part))?;
    block.push(b"\r\n")
}

/// Writes the agent's own fields, but for those that the configuration sets or removes.
fn forwarded(
    block: &mut impl Sink,
    request: &Request<'_>,
    added: &Additions,
    changes: &Changes<'_>,
) -> Option<()> {
    let (ip, scheme) = (added.client.ip(), added.scheme);
    let mut text = ArrayVec::<u8, 64>::new();
    match ip {
        IpAddr::V4(ip) => write_v4(&mut text, ip)?,
        IpAddr::V6(ip) => write!(text, "{ip}").ok()?,
    }
    field(block, changes, "X-Forwarded-For", &[&text])?;
    field(block, changes, "X-Forwarded-Proto", &[scheme.as_bytes()])?;
    // IPv6 addresses are quoted (RFC 7239 section 6), and so are hosts with a port.
    let (open, close): (&[u8], &[u8]) = if ip.is_ipv6() { (b"\"[", b"]\"") } else { (b"", b"") };
    let host = request.host.as_bytes();
    let named: [&[u8]; 3] = if host.is_empty() { [b""; 3] } else { [b";host=\"", host, b"\""] };
    let [by, name, quote] = named;
    field(
        block,
        changes,
        "Forwarded",
        &[b"for=", open, &text, close, b";proto=", scheme.as_bytes(), by, name, quote],
    )?;
    if !host.is_empty() {
        field(block, changes, "X-Forwarded-Host", &[host])?;
    }
    let digits = added.id.to_be_bytes().map(|byte| [byte >> 4, byte & 15].map(digit));
    field(block, changes, "X-Request-Id", &[digits.as_flattened()])
}

const fn digit(value: u8) -> u8 {
    if value < 10 { b'0' + value } else { b'a' + value - 10 }
}

/// As `write!` does, which costs ten times as many instructions.
fn write_v4(text: &mut ArrayVec<u8, 64>, ip: Ipv4Addr) -> Option<()> {
    for (at, octet) in ip.octets().into_iter().enumerate() {
        let [hundreds, tens, ones] = [octet / 100, octet / 10 % 10, octet % 10].map(digit);
        let digits = [hundreds, tens, ones];
        let skipped = usize::from(octet < 100) + usize::from(octet < 10);
        if at > 0 {
            text.try_push(b'.').ok()?;
        }
        text.try_extend_from_slice(digits.get(skipped..)?).ok()?;
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_written_as_everybody_writes_them() {
        for octet in 0..=255 {
            let ip = Ipv4Addr::new(octet, 255 - octet, octet / 2, 10);
            let mut text = ArrayVec::new();
            write_v4(&mut text, ip).unwrap();
            assert_eq!(std::str::from_utf8(&text).unwrap(), ip.to_string());
        }
    }

    use crate::blocks::Blocks;

    fn written(text: &str, changes: &Changes<'_>) -> String {
        let mut block = Blocks::new(1, 0).get().unwrap();
        let request = Request::parse(text.as_bytes()).unwrap().unwrap();
        let client = "[2001:db8::1]:99".parse().unwrap();
        write(&mut block, &request, &Additions { client, scheme: "http", id: 10 }, changes)
            .unwrap();
        String::from_utf8(block.bytes().to_vec()).unwrap()
    }

    #[test]
    fn what_a_client_says_of_itself_is_replaced() {
        let text = "GET /a HTTP/1.1\r\nHost: b:8\r\nX-Forwarded-For: 1.2.3.4\r\nA: x\r\n\
                    Keep-Alive: 1\r\nConnection: keep-alive, B\r\nB: c\r\nforwarded: for=me\r\n\r\n";
        assert_eq!(
            written(text, &Changes::default()),
            "GET /a HTTP/1.1\r\nHost: b:8\r\nA: x\r\nConnection: keep-alive\r\n\
             X-Forwarded-For: 2001:db8::1\r\nX-Forwarded-Proto: http\r\n\
             Forwarded: for=\"[2001:db8::1]\";proto=http;host=\"b:8\"\r\n\
             X-Forwarded-Host: b:8\r\nX-Request-Id: 000000000000000a\r\n\r\n"
        );
    }

    #[test]
    fn what_a_configuration_sets_or_removes_is_not_the_agents_own() {
        let set = [("X-Forwarded-Proto".to_owned(), "https".to_owned())];
        let add = [("X-Via".to_owned(), "hnlb".to_owned())];
        let remove = ["x-forwarded-for", "Forwarded", "a", "x-request-id"].map(str::to_owned);
        let changes = Changes { set: &set, add: &add, remove: &remove };
        let text = "GET /a HTTP/1.1\r\nHost: b\r\nA: x\r\nX-Via: me\r\n\r\n";
        assert_eq!(
            written(text, &changes),
            "GET /a HTTP/1.1\r\nHost: b\r\nX-Via: me\r\nX-Forwarded-Proto: https\r\n\
             X-Via: hnlb\r\nX-Forwarded-Host: b\r\n\r\n"
        );
    }

    #[test]
    fn an_upgrade_reaches_the_backend_if_it_is_listed() {
        let asks = |connection: &str| {
            format!(
                "GET / HTTP/1.1\r\nHost: a\r\nUpgrade: websocket\r\nConnection: {connection}\r\n\r\n"
            )
        };
        let passes = written(&asks("upgrade"), &Changes::default());
        assert!(passes.contains("\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"), "{passes}");
        assert!(!written(&asks("close"), &Changes::default()).contains("Upgrade"));
    }
}
