//! The flow set: clients and backends, and the frames they send.
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};

use flow::Direction;
use wire::{FlowKey, Mac, TcpFlags, Transport};

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
/// Bytes of the shortest frame, which has room for Ethernet, IPv4 and TCP header.
pub(crate) const SHORTEST: usize = 60;
/// The port that all backends serve.
const SERVED: u16 = 8080;

/// The client of connection `number`: 16 ports on each address.
pub(crate) fn client(number: u64) -> SocketAddrV4 {
    let host = Ipv4Addr::from_bits(0x6440_0000_u32.wrapping_add((number >> 4) as u32));
    let port = 1024 + (number & 15) as u16 * 4001;
    SocketAddrV4::new(host, port)
}

/// The backend at `place`, 0 to 9.
pub(crate) fn backend(place: u8) -> (SocketAddrV4, Mac) {
    let address = Ipv4Addr::new(10, 0, 0, 11 + place);
    (SocketAddrV4::new(address, SERVED), Mac([2, 0, 0, 0, 2, place]))
}

/// The 5-tuple of connection `number`, as the client sends it.
pub(crate) fn key(proto: Transport, number: u64) -> Option<FlowKey> {
    FlowKey::new(proto, SocketAddr::V4(client(number)), SocketAddr::V4(VIP))
}

/// What all frames of one transport have in common, by direction.
#[derive(Clone, Debug)]
pub(crate) struct Moulds {
    proto: Transport,
    headers: [[u8; SHORTEST]; 2],
}

impl Moulds {
    pub(crate) fn new(proto: Transport) -> Self {
        let headers = Direction::BOTH.map(|direction| {
            let macs = match direction {
                Direction::Forward => [CLIENT_SIDE, ROUTER],
                Direction::Reply => [SERVER_SIDE, backend(0).1],
            };
            let mut headers = [0; SHORTEST];
            headers[..6].copy_from_slice(&macs[0].0);
            headers[6..12].copy_from_slice(&macs[1].0);
            headers[12..16].copy_from_slice(&[8, 0, 0x45, 0]);
            headers[20..24].copy_from_slice(&[0x40, 0, 64, proto.number()]);
            if proto == Transport::Tcp {
                headers[46] = 0x50;
                headers[48..50].copy_from_slice(&[0xff, 0xff]);
            }
            headers
        });
        Self { proto, headers }
    }

    /// A frame of connection `number` from its client, `size` bytes on the wire.
    pub(crate) fn forward(&self, number: u64, size: u16, flags: u8) -> Shot {
        self.shot(Direction::Forward, client(number), VIP, size, flags)
    }

    /// A frame of connection `number` from the backend at `place`.
    pub(crate) fn reply(&self, number: u64, place: u8, size: u16, flags: u8) -> Shot {
        self.shot(Direction::Reply, backend(place).0, client(number), size, flags)
    }

    fn shot(
        &self,
        direction: Direction,
        from: SocketAddrV4,
        to: SocketAddrV4,
        size: u16,
        flags: u8,
    ) -> Shot {
        let length = size.saturating_sub(FCS).max(SHORTEST as u16);
        let least = if self.proto == Transport::Tcp { 40 } else { 28 };
        let datagram = if usize::from(length) > SHORTEST { length - 14 } else { least };
        let mut ends = [0; 12];
        ends[..4].copy_from_slice(&from.ip().octets());
        ends[4..8].copy_from_slice(&to.ip().octets());
        ends[8..10].copy_from_slice(&from.port().to_be_bytes());
        ends[10..].copy_from_slice(&to.port().to_be_bytes());
        let word = |at: usize| -> u32 {
            ends.get(at..)
                .and_then(|rest| rest.first_chunk())
                .map_or(0, |pair| u32::from(u16::from_be_bytes(*pair)))
        };
        let addresses = word(0) + word(2) + word(4) + word(6);
        let proto = u32::from(self.proto.number());
        let net = 0x4500 + u32::from(datagram) + 0x4000 + 0x4000 + proto + addresses;
        let transport = match self.proto {
            Transport::Tcp => {
                let segment = u32::from(datagram - 20);
                let fixed = 0x5000 + u32::from(flags) + 0xffff;
                folded(addresses + proto + segment + word(8) + word(10) + fixed)
            }
            // UDP's length; its checksum stays 0: there is none.
            Transport::Udp => (datagram - 20).to_be_bytes(),
        };
        let port = u16::from(direction == Direction::Reply);
        let place = (port * REPLY) | (u16::from(flags & 0x3f) << FLAGS);
        Shot { net: folded(net), ends, transport, length: datagram, place, mark: 0 }
    }

    /// Writes the headers of `shot`; the bytes behind them stay.
    #[inline]
    pub(crate) fn write(&self, shot: &Shot, headers: &mut [u8; SHORTEST]) {
        let [forward, reply] = &self.headers;
        *headers = if shot.place & REPLY == 0 { *forward } else { *reply };
        headers[16..18].copy_from_slice(&shot.length.to_be_bytes());
        headers[24..26].copy_from_slice(&shot.net);
        headers[26..38].copy_from_slice(&shot.ends);
        if self.proto == Transport::Tcp {
            headers[47] = ((shot.place >> FLAGS) & 0x3f) as u8;
            headers[50..52].copy_from_slice(&shot.transport);
        } else {
            headers[38..40].copy_from_slice(&shot.transport);
        }
    }

    /// The whole frame of `shot`.
    #[cfg(test)]
    pub(crate) fn frame(&self, shot: &Shot) -> Vec<u8> {
        let mut frame = vec![0; shot.len()];
        if let Some(headers) = frame.first_chunk_mut() {
            self.write(shot, headers);
        }
        frame
    }
}

/// The Internet checksum of words already added up.
fn folded(sum: u32) -> [u8; 2] {
    let once = (sum & 0xffff) + (sum >> 16);
    let twice = (once & 0xffff) + (once >> 16);
    (!(twice as u16)).to_be_bytes()
}

/// What differs between one frame and another, and what the NIC says of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Shot {
    /// Both addresses and both ports, in wire order.
    ends: [u8; 12],
    /// IPv4 header checksum.
    net: [u8; 2],
    /// TCP's checksum, or UDP's length.
    transport: [u8; 2],
    /// Bytes of the IPv4 datagram.
    length: u16,
    /// The ring in the low byte, then six TCP flags, direction, mark or none.
    place: u16,
    /// The mark.
    mark: u32,
}

const FLAGS: u32 = 8;
const REPLY: u16 = 1 << 14;
const MARKED: u16 = 1 << 15;

impl Shot {
    /// The same, put by the NIC into ring number `ring` with `mark`.
    pub(crate) fn aimed(self, ring: u8, mark: Option<u32>) -> Self {
        let place = (self.place & !(MARKED | 0xff)) | u16::from(ring);
        let marked = if mark.is_some() { MARKED } else { 0 };
        Self { place: place | marked, mark: mark.unwrap_or(0), ..self }
    }

    /// The ring it goes into: those of the clients' port first.
    #[inline]
    pub(crate) const fn ring(&self) -> usize {
        (self.place & 0xff) as usize
    }

    /// The port at which it arrives.
    #[inline]
    pub(crate) const fn port(&self) -> usize {
        (self.place & REPLY != 0) as usize
    }

    /// The mark.
    #[inline]
    pub(crate) fn mark(&self) -> Option<u32> {
        (self.place & MARKED != 0).then_some(self.mark)
    }

    /// Bytes of the frame.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        (usize::from(self.length) + 14).max(SHORTEST)
    }
}

/// Data of an open connection.
pub(crate) const DATA: u8 = TcpFlags::ACK;

#[cfg(test)]
mod tests {
    use wire::checksum;

    use super::*;

    /// The frame must be what parsers and RFC 1071 say.
    fn check(proto: Transport, frame: &[u8], size: u16, key: Option<FlowKey>) {
        assert_eq!(frame.len(), usize::from(size - FCS));
        let headers = wire::Headers::parse(frame).unwrap();
        assert_eq!(headers.flow(frame), key);
        assert_eq!(checksum::of(&frame[14..34], 0), 0);
        let end = 14 + usize::from(u16::from_be_bytes([frame[16], frame[17]]));
        let (from, to) = (key.unwrap().src(), key.unwrap().dst());
        let (SocketAddr::V4(from), SocketAddr::V4(to)) = (from, to) else { unreachable!() };
        let length = (end - 34) as u16;
        let pseudo = checksum::pseudo_v4(*from.ip(), *to.ip(), proto.number(), length);
        match proto {
            Transport::Tcp => assert_eq!(checksum::of(&frame[34..end], pseudo), 0),
            Transport::Udp => assert_eq!(frame[38..42], [length.to_be_bytes(), [0; 2]].concat()),
        }
    }

    #[test]
    fn frames_are_whole_and_right() {
        for proto in [Transport::Tcp, Transport::Udp] {
            let moulds = Moulds::new(proto);
            for size in [64, 65, 128, 1518] {
                for number in [0, 1, 17, 3_999_999] {
                    let there = moulds.frame(&moulds.forward(number, size, DATA));
                    check(proto, &there, size, key(proto, number));
                    let back = moulds.frame(&moulds.reply(number, 3, size, DATA));
                    let (server, client) = (backend(3).0.into(), client(number).into());
                    check(proto, &back, size, FlowKey::new(proto, server, client));
                }
            }
        }
    }

    #[test]
    fn headers_leave_nothing_of_another_frame() {
        let moulds = Moulds::new(Transport::Tcp);
        let shots = [moulds.forward(5, 64, TcpFlags::SYN), moulds.reply(5, 1, 64, DATA)];
        let mut headers = [0xee; SHORTEST];
        for shot in shots {
            moulds.write(&shot, &mut headers);
            assert_eq!(headers.to_vec(), moulds.frame(&shot));
        }
    }

    #[test]
    fn a_shot_keeps_what_the_nic_says() {
        let moulds = Moulds::new(Transport::Tcp);
        let syn = moulds.reply(1, 0, 64, TcpFlags::SYN | TcpFlags::ACK);
        let aimed = syn.aimed(21, Some(u32::MAX));
        assert_eq!((aimed.ring(), aimed.mark(), aimed.port()), (21, Some(u32::MAX), 1));
        assert_eq!(moulds.frame(&aimed), moulds.frame(&syn));
        assert_eq!(aimed.aimed(0, Some(0)).mark(), Some(0));
        assert_eq!(aimed.aimed(3, None).mark(), None);
        assert_eq!(moulds.forward(1, 64, DATA).port(), 0);
    }
}
