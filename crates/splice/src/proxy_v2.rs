//! The PROXY protocol, version 2: who the client is, in front of its first byte
//! (<https://www.haproxy.org/download/3.0/doc/proxy-protocol.txt>, section 2.2).
use std::net::SocketAddr;

use arrayvec::ArrayVec;

const SIGNATURE: [u8; 12] = *b"\r\n\r\n\0\r\nQUIT\n";
/// Version 2, and the command PROXY.
const COMMAND: u8 = 0x21;
const TCP_V4: u8 = 0x11;
const TCP_V6: u8 = 0x21;

/// Bytes of the longest header.
pub const MAX_PROXY: usize = 52;

/// The header for a TCP connection of `client` to `vip`. `None`: the families differ.
#[must_use]
pub fn proxy_v2(client: SocketAddr, vip: SocketAddr) -> Option<ArrayVec<u8, MAX_PROXY>> {
    let mut header = ArrayVec::new();
    header.extend(SIGNATURE);
    header.push(COMMAND);
    match (client, vip) {
        (SocketAddr::V4(client), SocketAddr::V4(vip)) => {
            header.extend([TCP_V4, 0, 12]);
            header.extend(client.ip().octets());
            header.extend(vip.ip().octets());
        }
        (SocketAddr::V6(client), SocketAddr::V6(vip)) => {
            header.extend([TCP_V6, 0, 36]);
            header.extend(client.ip().octets());
            header.extend(vip.ip().octets());
        }
        _ => return None,
    }
    header.extend(client.port().to_be_bytes());
    header.extend(vip.port().to_be_bytes());
    Some(header)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_length_says_how_much_follows_the_first_sixteen_bytes() {
        for (client, vip) in [("1.2.3.4:258", "5.6.7.8:80"), ("[1::2]:258", "[3::4]:80")] {
            let header = proxy_v2(client.parse().unwrap(), vip.parse().unwrap()).unwrap();
            assert_eq!(usize::from(header[15]) + 16, header.len());
            assert_eq!(header[header.len() - 4..], [1, 2, 0, 80]);
        }
        let four = proxy_v2("1.2.3.4:258".parse().unwrap(), "5.6.7.8:80".parse().unwrap());
        assert_eq!(&four.unwrap()[13..24], [0x11, 0, 12, 1, 2, 3, 4, 5, 6, 7, 8]);
        assert_eq!(proxy_v2("1.2.3.4:1".parse().unwrap(), "[1::2]:1".parse().unwrap()), None);
    }
}
