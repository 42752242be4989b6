//! An ICMP echo (RFC 792, RFC 4443), from a ping socket or, where the kernel keeps
//! those from this process, from a raw one.
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicU16, Ordering};

use socket2::{Domain, Protocol, Socket, Type};
use tokio::net::UdpSocket;

const PAYLOAD: &[u8; 16] = b"hnlb health echo";
/// Of an echo request: type, code, checksum, identifier, sequence number.
const HEADER: usize = 8;

static NEXT: AtomicU16 = AtomicU16::new(1);

pub(super) async fn echo(to: IpAddr) -> Result<(), String> {
    let failed = |error: io::Error| format!("ICMP: {error}");
    let socket = open(to).map_err(failed)?;
    let sequence = NEXT.fetch_add(1, Ordering::Relaxed);
    socket.send(&request(to.is_ipv6(), sequence)).await.map_err(failed)?;
    let mut answer = [0; 256];
    loop {
        let length = socket.recv(&mut answer).await.map_err(failed)?;
        if is_reply(to.is_ipv6(), sequence, answer.get(..length).unwrap_or_default()) {
            return Ok(());
        }
    }
}

/// A socket for echoes to and from `to` alone.
fn open(to: IpAddr) -> io::Result<UdpSocket> {
    let (domain, protocol) = if to.is_ipv4() {
        (Domain::IPV4, Protocol::ICMPV4)
    } else {
        (Domain::IPV6, Protocol::ICMPV6)
    };
    let socket = Socket::new(domain, Type::DGRAM, Some(protocol))
        .or_else(|_| Socket::new(domain, Type::RAW, Some(protocol)))?;
    socket.set_nonblocking(true)?;
    socket.connect(&SocketAddr::new(to, 0).into())?;
    UdpSocket::from_std(socket.into())
}

/// An echo request. A ping socket puts its own identifier and checksum in; of a raw
/// one the kernel fills the checksum of ICMPv6.
fn request(v6: bool, sequence: u16) -> Vec<u8> {
    let kind = if v6 { 128 } else { 8 };
    let mut packet = vec![kind, 0, 0, 0, 0x68, 0x6e];
    packet.extend(sequence.to_be_bytes());
    packet.extend(PAYLOAD);
    let words = packet.chunks_exact(2).map(|pair| match pair {
        [high, low] => u32::from(u16::from_be_bytes([*high, *low])),
        _ => 0,
    });
    let sum: u32 = words.sum();
    let folded = (sum & 0xffff) + (sum >> 16);
    let checksum = !((folded & 0xffff) as u16 + (folded >> 16) as u16);
    if let Some(place) = packet.get_mut(2..4) {
        place.copy_from_slice(&checksum.to_be_bytes());
    }
    packet
}

/// Whether `packet` is the reply to the request with `sequence`. An IPv4 raw socket
/// gives the IP header as well.
fn is_reply(v6: bool, sequence: u16, packet: &[u8]) -> bool {
    let kind = if v6 { 129 } else { 0 };
    let message = match packet.first() {
        Some(first) if !v6 && first >> 4 == 4 => packet.get(usize::from(first & 15) * 4..),
        _ => Some(packet),
    };
    let Some((header, payload)) = message.and_then(|message| message.split_first_chunk::<HEADER>())
    else {
        return false;
    };
    let [own, code, _, _, _, _, high, low] = *header;
    (own, code) == (kind, 0) && [high, low] == sequence.to_be_bytes() && payload == PAYLOAD
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_not_its_reply_and_the_reply_is() {
        for v6 in [false, true] {
            let mut packet = request(v6, 77);
            assert!(!is_reply(v6, 77, &packet));
            packet[0] = if v6 { 129 } else { 0 };
            assert!(is_reply(v6, 77, &packet));
            assert!(!is_reply(v6, 78, &packet));
            assert!((0..packet.len()).all(|cut| !is_reply(v6, 77, &packet[..cut])));
            if !v6 {
                let with_header = [&[0x45; 1][..], &[0; 19], &packet].concat();
                assert!(is_reply(v6, 77, &with_header));
            }
        }
    }

    #[test]
    fn the_checksum_of_a_request_is_right() {
        for sequence in [0, 1, 0x7fff, 0xffff] {
            let packet = request(false, sequence);
            let words = packet.chunks(2).map(|two| u32::from(two[0]) << 8 | u32::from(two[1]));
            let sum: u32 = words.sum();
            assert_eq!((sum & 0xffff) + (sum >> 16), 0xffff);
        }
    }
}
