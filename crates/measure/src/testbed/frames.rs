//! The flow set: clients and backends, and the frames they send.
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4};

use flow::Direction;
use wire::{FlowKey, Mac, TcpFlags, Transport};

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
/// Bytes of Ethernet, IPv6 and TCP header.
const SHORTEST_V6: usize = 74;
/// Bytes that hold the headers of either family.
pub(crate) const HEADERS: usize = SHORTEST_V6;
/// The VIP that all clients speak to.
const VIP: SocketAddrV4 = SocketAddrV4::new(Ipv4Addr::new(192, 0, 2, 100), 80);
/// The port that all backends serve.
const SERVED: u16 = 8080;
/// The first 96 bits of every IPv6 address; the IPv4 address follows.
const PREFIX: [u8; 12] = [0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0];

/// What the addresses of a flow set are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Family {
    V4,
    V6,
}

impl Family {
    /// `address`, or the IPv6 address that ends in it.
    pub(crate) const fn address(self, address: Ipv4Addr) -> IpAddr {
        match self {
            Self::V4 => IpAddr::V4(address),
            Self::V6 => {
                let [p, q, r, s, ..] = PREFIX;
                let bits = (u32::from_be_bytes([p, q, r, s]) as u128) << 96;
                IpAddr::V6(Ipv6Addr::from_bits(bits | address.to_bits() as u128))
            }
        }
    }

    /// Bytes of a frame with all headers and no data.
    const fn shortest(self) -> usize {
        match self {
            Self::V4 => SHORTEST,
            Self::V6 => SHORTEST_V6,
        }
    }
}

/// The client of connection `number`: 16 ports on each address.
fn client(number: u64) -> SocketAddrV4 {
    let host = Ipv4Addr::from_bits(0x6440_0000_u32.wrapping_add((number >> 4) as u32));
    let port = 1024 + (number & 15) as u16 * 4001;
    SocketAddrV4::new(host, port)
}

/// The Ethernet address of the backend at `place`.
pub(crate) const fn backend_mac(place: u8) -> Mac {
    Mac([2, 0, 0, 0, 2, place])
}

/// The address of the backend at `place`, 0 to 9.
fn backend(place: u8) -> SocketAddrV4 {
    SocketAddrV4::new(Ipv4Addr::new(10, 0, 0, 11 + place), SERVED)
}

/// What all frames of one family and transport have in common, by direction.
#[derive(Clone, Debug)]
pub(crate) struct Templates {
    family: Family,
    proto: Transport,
    headers: [[u8; HEADERS]; 2],
}

impl Templates {
    pub(crate) fn new(family: Family, proto: Transport) -> Self {
        let headers = Direction::BOTH.map(|direction| {
            let macs = match direction {
                Direction::Forward => [CLIENT_SIDE, ROUTER],
                Direction::Reply => [SERVER_SIDE, backend_mac(0)],
            };
            let mut headers = [0; HEADERS];
            headers[..6].copy_from_slice(&macs[0].0);
            headers[6..12].copy_from_slice(&macs[1].0);
            let transport = match family {
                Family::V4 => {
                    headers[12..16].copy_from_slice(&[8, 0, 0x45, 0]);
                    headers[20..24].copy_from_slice(&[0x40, 0, 64, proto.number()]);
                    34
                }
                Family::V6 => {
                    headers[12..15].copy_from_slice(&[0x86, 0xdd, 0x60]);
                    headers[20..22].copy_from_slice(&[proto.number(), 64]);
                    headers[22..34].copy_from_slice(&PREFIX);
                    headers[38..50].copy_from_slice(&PREFIX);
                    54
                }
            };
            if proto == Transport::Tcp {
                headers[transport + 12] = 0x50;
                headers[transport + 14..transport + 16].copy_from_slice(&[0xff, 0xff]);
            }
            headers
        });
        Self { family, proto, headers }
    }

    fn end(&self, end: SocketAddrV4) -> SocketAddr {
        SocketAddr::new(self.family.address(*end.ip()), end.port())
    }

    /// The VIP that all clients speak to.
    pub(crate) fn vip(&self) -> SocketAddr {
        self.end(VIP)
    }

    /// The client of connection `number`.
    pub(crate) fn client(&self, number: u64) -> SocketAddr {
        self.end(client(number))
    }

    /// The address of the backend at `place`, 0 to 9.
    pub(crate) fn backend(&self, place: u8) -> SocketAddr {
        self.end(backend(place))
    }

    /// The 5-tuple of connection `number`, as the client sends it.
    pub(crate) fn key(&self, number: u64) -> Option<FlowKey> {
        FlowKey::new(self.proto, self.client(number), self.vip())
    }

    /// A frame of connection `number` from its client, `size` bytes on the wire.
    pub(crate) fn forward(&self, number: u64, size: u16, flags: u8) -> FrameSpec {
        self.spec(Direction::Forward, client(number), VIP, size, flags)
    }

    /// A frame of connection `number` from the backend at `place`.
    pub(crate) fn reply(&self, number: u64, place: u8, size: u16, flags: u8) -> FrameSpec {
        self.spec(Direction::Reply, backend(place), client(number), size, flags)
    }

    fn spec(
        &self,
        direction: Direction,
        from: SocketAddrV4,
        to: SocketAddrV4,
        size: u16,
        flags: u8,
    ) -> FrameSpec {
        let length = size.saturating_sub(FCS).max(SHORTEST as u16);
        let (net, least) = match self.family {
            Family::V4 => (20, if self.proto == Transport::Tcp { 40 } else { 28 }),
            Family::V6 => (40, if self.proto == Transport::Tcp { 60 } else { 48 }),
        };
        let padded = self.family == Family::V4 && usize::from(length) <= SHORTEST;
        let datagram = if padded { least } else { (length - 14).max(least) };
        let mut ends = [0; 12];
        ends[..4].copy_from_slice(&from.ip().octets());
        ends[4..8].copy_from_slice(&to.ip().octets());
        ends[8..10].copy_from_slice(&from.port().to_be_bytes());
        ends[10..].copy_from_slice(&to.port().to_be_bytes());
        let addresses = words(&ends[..8]);
        let prefixes = if self.family == Family::V6 { 2 * words(&PREFIX) } else { 0 };
        let proto = u32::from(self.proto.number());
        let header = 0x4500 + u32::from(datagram) + 0x4000 + 0x4000 + proto + addresses;
        let transport = match self.proto {
            Transport::Tcp => {
                let segment = u32::from(datagram - net);
                let fixed = 0x5000 + u32::from(flags) + 0xffff;
                folded(addresses + prefixes + proto + segment + words(&ends[8..]) + fixed)
            }
            // UDP's length; its checksum stays 0: there is none.
            Transport::Udp => (datagram - net).to_be_bytes(),
        };
        let port = u16::from(direction == Direction::Reply);
        let place = (port * REPLY) | (u16::from(flags & 0x3f) << FLAGS);
        FrameSpec { net: folded(header), ends, transport, length: datagram, place, mark: 0 }
    }

    /// Writes the headers of `spec` into `frame`; the bytes behind them stay.
    /// `false`: they don't fit.
    #[inline]
    pub(crate) fn write(&self, spec: &FrameSpec, frame: &mut [u8]) -> bool {
        let [forward, reply] = &self.headers;
        let headers = if spec.place & REPLY == 0 { forward } else { reply };
        let transport = match self.family {
            Family::V4 => {
                let Some(frame) = frame.first_chunk_mut::<SHORTEST>() else { return false };
                frame.copy_from_slice(&headers[..SHORTEST]);
                frame[16..18].copy_from_slice(&spec.length.to_be_bytes());
                frame[24..26].copy_from_slice(&spec.net);
                frame[26..38].copy_from_slice(&spec.ends);
                &mut frame[34..]
            }
            Family::V6 => {
                let Some(frame) = frame.first_chunk_mut::<SHORTEST_V6>() else { return false };
                *frame = *headers;
                frame[18..20].copy_from_slice(&(spec.length - 40).to_be_bytes());
                frame[34..38].copy_from_slice(&spec.ends[..4]);
                frame[50..54].copy_from_slice(&spec.ends[4..8]);
                frame[54..58].copy_from_slice(&spec.ends[8..]);
                &mut frame[54..]
            }
        };
        if self.proto == Transport::Tcp {
            transport[13] = ((spec.place >> FLAGS) & 0x3f) as u8;
            transport[16..18].copy_from_slice(&spec.transport);
        } else {
            transport[4..6].copy_from_slice(&spec.transport);
        }
        true
    }

    /// Bytes that hold the headers of any frame.
    pub(crate) const fn shortest(&self) -> usize {
        self.family.shortest()
    }

    /// The whole frame of `spec`.
    #[cfg(test)]
    pub(crate) fn frame(&self, spec: &FrameSpec) -> Vec<u8> {
        let mut frame = vec![0; spec.len()];
        self.write(spec, &mut frame);
        frame
    }
}

/// The sum of the 16-bit words of `bytes`.
fn words(bytes: &[u8]) -> u32 {
    let pairs = bytes.chunks_exact(2).filter_map(|pair| pair.first_chunk());
    pairs.map(|pair| u32::from(u16::from_be_bytes(*pair))).sum()
}

/// The Internet checksum of words already added up.
fn folded(sum: u32) -> [u8; 2] {
    let once = (sum & 0xffff) + (sum >> 16);
    let twice = (once & 0xffff) + (once >> 16);
    (!(twice as u16)).to_be_bytes()
}

/// What differs between one frame and another, and what the NIC says of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct FrameSpec {
    /// Both addresses (of IPv6 their last four bytes) and both ports, in wire order.
    ends: [u8; 12],
    /// IPv4 header checksum; IPv6 has none.
    net: [u8; 2],
    /// TCP's checksum, or UDP's length.
    transport: [u8; 2],
    /// Bytes of the IP datagram.
    length: u16,
    /// The ring in the low byte, then six TCP flags, direction, mark or none.
    place: u16,
    /// The mark.
    mark: u32,
}

const FLAGS: u32 = 8;
const REPLY: u16 = 1 << 14;
const MARKED: u16 = 1 << 15;

impl FrameSpec {
    /// The same, put by the NIC into ring number `ring` with `mark`.
    pub(crate) fn steered(self, ring: u8, mark: Option<u32>) -> Self {
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
        let headers = wire::Headers::parse(frame).unwrap();
        assert_eq!(headers.flow(frame), key);
        let (from, to) = (key.unwrap().src().ip(), key.unwrap().dst().ip());
        let (net, length) = match from {
            IpAddr::V4(_) => (34, u16::from_be_bytes([frame[16], frame[17]]) - 20),
            IpAddr::V6(_) => (54, u16::from_be_bytes([frame[18], frame[19]])),
        };
        let pseudo = match (from, to) {
            (IpAddr::V4(from), IpAddr::V4(to)) => {
                assert_eq!(frame.len(), usize::from(size - FCS));
                assert_eq!(checksum::of(&frame[14..34], 0), 0);
                checksum::pseudo_v4(from, to, proto.number(), length)
            }
            (IpAddr::V6(from), IpAddr::V6(to)) => {
                assert_eq!(frame.len(), usize::from(size - FCS).max(SHORTEST_V6));
                checksum::pseudo_v6(from, to, proto.number(), length.into())
            }
            _ => unreachable!(),
        };
        let segment = &frame[net..net + usize::from(length)];
        match proto {
            Transport::Tcp => assert_eq!(checksum::of(segment, pseudo), 0),
            Transport::Udp => assert_eq!(segment[4..8], [length.to_be_bytes(), [0; 2]].concat()),
        }
    }

    #[test]
    fn frames_are_whole_and_right() {
        for (family, proto) in [
            (Family::V4, Transport::Tcp),
            (Family::V4, Transport::Udp),
            (Family::V6, Transport::Tcp),
        ] {
            let templates = Templates::new(family, proto);
            for size in [64, 65, 78, 128, 1518] {
                for number in [0, 1, 17, 3_999_999] {
                    let there = templates.frame(&templates.forward(number, size, DATA));
                    check(proto, &there, size, templates.key(number));
                    let back = templates.frame(&templates.reply(number, 3, size, DATA));
                    let (server, client) = (templates.backend(3), templates.client(number));
                    check(proto, &back, size, FlowKey::new(proto, server, client));
                }
            }
        }
    }

    #[test]
    fn headers_leave_nothing_of_another_frame() {
        for family in [Family::V4, Family::V6] {
            let templates = Templates::new(family, Transport::Tcp);
            let mut headers = vec![0xee; templates.shortest()];
            for spec in [templates.forward(5, 64, TcpFlags::SYN), templates.reply(5, 1, 64, DATA)] {
                assert!(templates.write(&spec, &mut headers));
                assert_eq!(headers, templates.frame(&spec));
            }
            assert!(!templates.write(&templates.forward(5, 64, DATA), &mut headers[1..]));
        }
    }

    #[test]
    fn a_spec_keeps_what_the_nic_says() {
        let templates = Templates::new(Family::V4, Transport::Tcp);
        let syn = templates.reply(1, 0, 64, TcpFlags::SYN | TcpFlags::ACK);
        let steered = syn.steered(21, Some(u32::MAX));
        assert_eq!((steered.ring(), steered.mark(), steered.port()), (21, Some(u32::MAX), 1));
        assert_eq!(templates.frame(&steered), templates.frame(&syn));
        assert_eq!(steered.steered(0, Some(0)).mark(), Some(0));
        assert_eq!(steered.steered(3, None).mark(), None);
        assert_eq!(templates.forward(1, 64, DATA).port(), 0);
    }
}
