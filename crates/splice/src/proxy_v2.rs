//! The PROXY protocol, version 2: who the client is, in front of its first byte
//! (<https://www.haproxy.org/download/3.0/doc/proxy-protocol.txt>, section 2.2).
use std::net::SocketAddr;

use arrayvec::ArrayVec;

const SIGNATURE: [u8; 12] = *b"\r\n\r\n\0\r\nQUIT\n";
/// Bytes of the header before the addresses.
const FIXED: usize = 16;
/// Version 2, and the command PROXY.
const COMMAND: u8 = 0x21;
const TCP_V4: u8 = 0x11;
const TCP_V6: u8 = 0x21;

/// The types of fields.
const ALPN: u8 = 0x01;
const AUTHORITY: u8 = 0x02;
const UNIQUE_ID: u8 = 0x05;
const SSL: u8 = 0x20;
const SSL_VERSION: u8 = 0x21;
/// The client has spoken TLS.
const CLIENT_SSL: u8 = 0x01;
/// The client has shown no certificate that was verified.
const UNVERIFIED: u32 = 1;

/// Bytes before the value of a field.
const FIELD: usize = 3;
/// Bytes of the longest value; a longer one is left out.
const LONGEST: usize = 255;
/// Bytes of the number: hexadecimal digits.
const ID: usize = 16;
/// Bytes of the longest name of a version of TLS.
const VERSION: usize = 16;

/// Bytes of the longest header.
pub const MAX_PROXY: usize =
    FIXED + 36 + 2 * (FIELD + LONGEST) + FIELD + ID + FIELD + 5 + FIELD + VERSION;

/// The bytes of a header.
pub type ProxyBytes = ArrayVec<u8, MAX_PROXY>;

/// What a backend is told of a TCP connection. What is empty is left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProxyHeader<'a> {
    /// The client and the VIP.
    pub ends: [SocketAddr; 2],
    /// The host or server name that the client asks for.
    pub authority: &'a [u8],
    /// The protocol above, if it is known (ALPN).
    pub alpn: &'a [u8],
    /// The version of TLS that the client has spoken with the load balancer.
    pub tls: &'a str,
    /// The connection's number.
    pub id: u64,
}

impl ProxyHeader<'_> {
    /// The header of which nothing but the ends and the number is known.
    #[must_use]
    pub const fn new(ends: [SocketAddr; 2], id: u64) -> Self {
        Self { ends, authority: b"", alpn: b"", tls: "", id }
    }

    /// The header as the backend gets it. If the families of the ends differ, which no
    /// connection's do, it says nothing of them.
    #[must_use]
    pub fn bytes(&self) -> ProxyBytes {
        let mut body = ProxyBytes::new();
        let family = self.write_ends(&mut body);
        write_field(&mut body, ALPN, self.alpn);
        write_field(&mut body, AUTHORITY, self.authority);
        let mut digits = [0; ID];
        hex(self.id, &mut digits);
        write_field(&mut body, UNIQUE_ID, &digits);
        if !self.tls.is_empty() && self.tls.len() <= VERSION {
            let mut own = ArrayVec::<u8, { 5 + FIELD + VERSION }>::new();
            own.push(CLIENT_SSL);
            own.extend(UNVERIFIED.to_be_bytes());
            own.extend([SSL_VERSION, 0, self.tls.len() as u8]);
            own.extend(self.tls.bytes());
            write_field(&mut body, SSL, &own);
        }
        let mut header = ProxyBytes::new();
        header.extend(SIGNATURE);
        header.extend([COMMAND, family]);
        // The body is shorter than MAX_PROXY.
        header.extend((body.len() as u16).to_be_bytes());
        header.extend(body);
        header
    }

    /// Writes the addresses and ports; returns the byte that says of which family they are.
    fn write_ends(&self, body: &mut ProxyBytes) -> u8 {
        let [client, vip] = self.ends;
        let family = match self.ends {
            [SocketAddr::V4(client), SocketAddr::V4(vip)] => {
                body.extend(client.ip().octets());
                body.extend(vip.ip().octets());
                TCP_V4
            }
            [SocketAddr::V6(client), SocketAddr::V6(vip)] => {
                body.extend(client.ip().octets());
                body.extend(vip.ip().octets());
                TCP_V6
            }
            _ => return 0,
        };
        body.extend(client.port().to_be_bytes());
        body.extend(vip.port().to_be_bytes());
        family
    }
}

/// Writes a field, if it has a value of no more than [`LONGEST`] bytes.
fn write_field(body: &mut ProxyBytes, kind: u8, value: &[u8]) {
    if value.is_empty() || value.len() > LONGEST {
        return;
    }
    body.extend([kind, 0, value.len() as u8]);
    body.extend(value.iter().copied());
}

/// The digits of `id`, as `X-Request-Id` has them.
fn hex(id: u64, digits: &mut [u8; ID]) {
    for (place, digit) in digits.iter_mut().enumerate() {
        let value = (id >> (60 - 4 * place)) as u8 & 15;
        *digit = if value < 10 { b'0' + value } else { b'a' + value - 10 };
    }
}

/// A host without its port (RFC 3986 section 3.2.2).
#[must_use]
pub fn without_port(host: &str) -> &str {
    match host.rfind(':') {
        Some(colon) if !host.ends_with(']') => host.get(..colon).unwrap_or(host),
        _ => host,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_is_no_part_of_the_host() {
        for (host, wanted) in
            [("a.b:80", "a.b"), ("a.b", "a.b"), ("[::1]:8", "[::1]"), ("[::1]", "[::1]"), ("", "")]
        {
            assert_eq!(without_port(host), wanted);
        }
    }

    #[test]
    fn ends_of_different_families_are_not_told() {
        let ends = ["1.2.3.4:1", "[1::2]:1"].map(|end| end.parse().unwrap());
        let header = ProxyHeader::new(ends, 0).bytes();
        assert_eq!((header[13], usize::from(header[15])), (0, FIELD + ID));
    }

    #[test]
    fn the_longest_header_finds_room() {
        let ends = ["[1::2]:1", "[1::3]:1"].map(|end| end.parse().unwrap());
        let (long, tls) = ([b'a'; LONGEST], "0123456789abcdef");
        let header = ProxyHeader { ends, authority: &long, alpn: &long, tls, id: u64::MAX };
        assert_eq!(header.bytes().len(), MAX_PROXY);
        let longer = [b'a'; LONGEST + 1];
        let shorter = ProxyHeader { authority: &longer, ..header }.bytes();
        assert_eq!(shorter.len(), MAX_PROXY - FIELD - LONGEST);
    }
}
