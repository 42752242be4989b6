//! The flow set: the clients, and the frames they send.
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};

use wire::{FlowKey, Mac, TcpFlags, Transport, checksum};

/// The VIP that all clients speak to.
pub(crate) const VIP: SocketAddrV4 = SocketAddrV4::new(Ipv4Addr::new(192, 0, 2, 100), 80);
/// The port that faces the clients.
pub(crate) const CLIENT_SIDE: Mac = Mac([2, 0, 0, 0, 0, 1]);
/// The port that faces the backends.
pub(crate) const SERVER_SIDE: Mac = Mac([2, 0, 0, 0, 0, 2]);
/// The router behind which the clients are.
pub(crate) const ROUTER: Mac = Mac([2, 0, 0, 0, 1, 1]);

/// Bytes of the frame check sequence, which no mbuf holds.
pub(crate) const FCS: u16 = 4;
/// Bytes of Ethernet, IPv4 and TCP header.
const HEADERS: usize = 54;

/// The client of connection `number`: 16 ports on each address.
pub(crate) fn client(number: u64) -> SocketAddrV4 {
    let host = Ipv4Addr::from_bits(0x6440_0000_u32.wrapping_add((number >> 4) as u32));
    let port = 1024 + (number & 15) as u16 * 4001;
    SocketAddrV4::new(host, port)
}

/// The 5-tuple of connection `number`, as the client sends it.
pub(crate) fn key(number: u64) -> Option<FlowKey> {
    FlowKey::new(Transport::Tcp, SocketAddr::V4(client(number)), SocketAddr::V4(VIP))
}

/// A frame of connection `number` of `size` bytes on the wire, with right
/// checksums.
pub(crate) fn frame(number: u64, size: u16, flags: u8) -> Vec<u8> {
    let from = client(number);
    let length = size.saturating_sub(FCS).max(60);
    let datagram = if length > 60 { length - 14 } else { 40 };
    let mut frame = Vec::with_capacity(usize::from(length));
    frame.extend(CLIENT_SIDE.0);
    frame.extend(ROUTER.0);
    frame.extend([8, 0, 0x45, 0]);
    frame.extend(datagram.to_be_bytes());
    frame.extend([0, 0, 0x40, 0, 64, 6, 0, 0]);
    frame.extend(from.ip().octets());
    frame.extend(VIP.ip().octets());
    frame.extend(from.port().to_be_bytes());
    frame.extend(VIP.port().to_be_bytes());
    frame.extend([0; 8]);
    frame.extend([0x50, flags, 0xff, 0xff, 0, 0, 0, 0]);
    frame.resize(usize::from(length), 0);
    let end = 14 + usize::from(datagram);
    let sum = frame.get(14..34).map_or(0, |ip| checksum::of(ip, 0));
    put(&mut frame, 24, sum);
    let pseudo = checksum::pseudo_v4(*from.ip(), *VIP.ip(), 6, datagram - 20);
    let sum = frame.get(34..end).map_or(0, |tcp| checksum::of(tcp, pseudo));
    put(&mut frame, 50, sum);
    frame
}

fn put(frame: &mut [u8], at: usize, value: u16) {
    if let Some(field) = frame.get_mut(at..at + 2) {
        field.copy_from_slice(&value.to_be_bytes());
    }
}

/// What differs between the frames of one connection and those of another, and
/// what the NIC says of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Shot {
    /// The client's address, in wire order.
    pub(crate) source: [u8; 4],
    /// The client's port, in wire order.
    pub(crate) port: [u8; 2],
    /// IPv4 header checksum.
    pub(crate) ip_sum: [u8; 2],
    /// TCP checksum.
    pub(crate) tcp_sum: [u8; 2],
    /// The receive queue; the top bit: there is a mark.
    place: u16,
    /// The mark.
    mark: u32,
}

const MARKED: u16 = 1 << 15;

impl Shot {
    /// The shot of `frame`, which goes to `queue` with `mark`.
    pub(crate) fn of(frame: &[u8], queue: u16, mark: Option<u32>) -> Self {
        let bytes = |at: usize| {
            let pair = frame.get(at..at + 2);
            pair.and_then(|pair| pair.try_into().ok()).unwrap_or([0; 2])
        };
        let ([a, b], [c, d]) = (bytes(26), bytes(28));
        Self {
            source: [a, b, c, d],
            port: bytes(34),
            ip_sum: bytes(24),
            tcp_sum: bytes(50),
            place: queue | if mark.is_some() { MARKED } else { 0 },
            mark: mark.unwrap_or(0),
        }
    }

    /// The receive queue.
    #[inline]
    pub(crate) const fn queue(self) -> usize {
        (self.place & !MARKED) as usize
    }

    /// The mark.
    #[inline]
    pub(crate) fn mark(self) -> Option<u32> {
        (self.place & MARKED != 0).then_some(self.mark)
    }

    /// Writes what is this shot's own into a frame's headers.
    #[inline]
    pub(crate) fn write(self, headers: &mut [u8; HEADERS]) {
        headers[24..26].copy_from_slice(&self.ip_sum);
        headers[26..30].copy_from_slice(&self.source);
        headers[34..36].copy_from_slice(&self.port);
        headers[50..52].copy_from_slice(&self.tcp_sum);
    }
}

/// Data of an open connection.
pub(crate) const DATA: u8 = TcpFlags::ACK;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shot_makes_the_frame_of_another_connection() {
        for size in [64, 128, 1518] {
            for number in [0, 1, 17, 3_999_999] {
                let wanted = frame(number, size, DATA);
                assert_eq!(wanted.len(), usize::from(size - FCS));
                let mut other = frame(5, size, DATA);
                Shot::of(&wanted, 3, Some(9)).write(other.first_chunk_mut().unwrap());
                assert_eq!(other, wanted);
            }
        }
    }

    #[test]
    fn frames_are_whole_and_right() {
        let bytes = frame(77, 200, DATA);
        let headers = wire::Headers::parse(&bytes).unwrap();
        assert_eq!(headers.flow(&bytes), key(77));
        assert_eq!(usize::from(headers.end), bytes.len());
        assert_eq!(checksum::of(&bytes[14..34], 0), 0);
        let pseudo = checksum::pseudo_v4(*client(77).ip(), *VIP.ip(), 6, 200 - 4 - 34);
        assert_eq!(checksum::of(&bytes[34..], pseudo), 0);
    }

    #[test]
    fn a_shot_keeps_queue_and_mark() {
        let bytes = frame(1, 64, DATA);
        assert_eq!(Shot::of(&bytes, 7, Some(u32::MAX)).mark(), Some(u32::MAX));
        assert_eq!(Shot::of(&bytes, 7, Some(0)).queue(), 7);
        assert_eq!(Shot::of(&bytes, 7, None).mark(), None);
    }
}
