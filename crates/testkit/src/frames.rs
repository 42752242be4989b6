//! Frames, byte by byte: also such as no builder makes.
use std::net::{IpAddr, SocketAddr};

use wire::{Transport, checksum};

const HOP_BY_HOP: u8 = 0;
const ROUTING: u8 = 43;
const FRAGMENT: u8 = 44;
const DESTINATION_OPTIONS: u8 = 60;

/// The Ethernet header of a frame.
#[derive(Clone, Copy, Debug)]
pub struct Link {
    /// The sender's address.
    pub src: [u8; 6],
    /// The receiver's address.
    pub dst: [u8; 6],
    /// The VLAN of its tag, if it has one.
    pub vlan: Option<u16>,
}

/// What can differ in the IP header.
#[derive(Clone, Debug, Default)]
pub struct Shape {
    /// IPv4's TTL, IPv6's hop limit.
    pub ttl: u8,
    /// 32-bit words of IPv4 options, up to 10.
    pub options: usize,
    /// IPv6 extension headers.
    pub extensions: Vec<u8>,
    /// IPv4's DF bit.
    pub dont_fragment: bool,
    /// Bytes behind the datagram.
    pub padding: usize,
}

/// One piece of a datagram.
#[derive(Clone, Copy, Debug)]
pub struct Piece {
    /// Where it begins in the datagram, in bytes.
    pub offset: usize,
    /// Whether others come behind it.
    pub more: bool,
    /// The datagram's identification.
    pub id: u16,
}

/// Extension headers by number.
#[must_use]
pub fn extension(number: usize) -> u8 {
    [HOP_BY_HOP, ROUTING, DESTINATION_OPTIONS][number % 3]
}

/// An IP frame with `payload` of protocol `proto`.
#[must_use]
pub fn ip(
    link: Link,
    [src, dst]: [IpAddr; 2],
    proto: u8,
    payload: &[u8],
    shape: &Shape,
    piece: Option<Piece>,
) -> Vec<u8> {
    let mut frame = ethernet(link, if src.is_ipv4() { 0x0800 } else { 0x86dd });
    match (src, dst) {
        (IpAddr::V4(src), IpAddr::V4(dst)) => {
            let header_len = 20 + 4 * shape.options;
            let mut header = vec![0; header_len];
            header[0] = 0x40 | (header_len / 4) as u8;
            header[2..4].copy_from_slice(&((header_len + payload.len()) as u16).to_be_bytes());
            let mut field = u16::from(shape.dont_fragment) << 14;
            if let Some(Piece { offset, more, id }) = piece {
                header[4..6].copy_from_slice(&id.to_be_bytes());
                field = (offset / 8) as u16 | u16::from(more) << 13;
            }
            header[6..8].copy_from_slice(&field.to_be_bytes());
            header[8..10].copy_from_slice(&[shape.ttl, proto]);
            header[12..16].copy_from_slice(&src.octets());
            header[16..20].copy_from_slice(&dst.octets());
            header[20..].fill(1);
            let sum = checksum::of(&header, 0);
            header[10..12].copy_from_slice(&sum.to_be_bytes());
            frame.extend(header);
        }
        (IpAddr::V6(src), IpAddr::V6(dst)) => {
            let mut chain = shape.extensions.clone();
            if piece.is_some() {
                chain.push(FRAGMENT);
            }
            let len = 8 * chain.len() + payload.len();
            frame.extend([0x60, 0, 0, 0]);
            frame.extend((len as u16).to_be_bytes());
            frame.extend([chain.first().copied().unwrap_or(proto), shape.ttl]);
            frame.extend(src.octets());
            frame.extend(dst.octets());
            for (at, kind) in chain.iter().enumerate() {
                let next = chain.get(at + 1).copied().unwrap_or(proto);
                match piece.filter(|_| *kind == FRAGMENT) {
                    Some(Piece { offset, more, id }) => {
                        frame.extend([next, 0]);
                        frame.extend(((offset as u16) | u16::from(more)).to_be_bytes());
                        frame.extend([0, 0]);
                        frame.extend(id.to_be_bytes());
                    }
                    // Padding as the only option; a routing header with no segment left.
                    None if *kind == ROUTING => frame.extend([next, 0, 0, 0, 0, 0, 0, 0]),
                    None => frame.extend([next, 0, 1, 4, 0, 0, 0, 0]),
                }
            }
        }
        _ => panic!("{src} and {dst} are of different families"),
    }
    frame.extend(payload);
    frame.extend(std::iter::repeat_n(0xee, shape.padding));
    frame
}

fn ethernet(link: Link, kind: u16) -> Vec<u8> {
    let mut frame = [link.dst, link.src].concat();
    if let Some(vlan) = link.vlan {
        frame.extend([0x81, 0x00]);
        frame.extend(vlan.to_be_bytes());
    }
    frame.extend(kind.to_be_bytes());
    frame
}

/// What the transport checksum is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sum {
    /// The one that the bytes have.
    Right,
    /// Another one.
    Wrong,
    /// 0: in UDP over IPv4, none.
    Zero,
}

/// A TCP segment or UDP datagram.
#[must_use]
pub fn transport(
    proto: Transport,
    src: SocketAddr,
    dst: SocketAddr,
    flags: u8,
    payload: &[u8],
    sum: Sum,
) -> Vec<u8> {
    let mut bytes = [src.port().to_be_bytes(), dst.port().to_be_bytes()].concat();
    let at = match proto {
        Transport::Tcp => {
            bytes.extend([0, 0, 0, 7, 0, 0, 0, 9, 0x50, flags, 16, 0, 0, 0, 0, 0]);
            16
        }
        Transport::Udp => {
            bytes.extend(((8 + payload.len()) as u16).to_be_bytes());
            bytes.extend([0, 0]);
            6
        }
    };
    bytes.extend(payload);
    let len = bytes.len() as u16;
    let pseudo = checksum::pseudo(src.ip(), dst.ip(), proto.number(), len).unwrap();
    let right = checksum::of(&bytes, pseudo);
    let value = match sum {
        Sum::Right => right,
        Sum::Wrong => right ^ 0x1234,
        Sum::Zero => 0,
    };
    bytes[at..at + 2].copy_from_slice(&value.to_be_bytes());
    bytes
}

/// An ICMP or ICMPv6 message in its IP packet: kind, code, the rest of the
/// header, and the body.
#[must_use]
pub fn icmp(link: Link, ends: [IpAddr; 2], head: [u8; 6], body: &[u8], shape: &Shape) -> Vec<u8> {
    let mut message = vec![head[0], head[1], 0, 0];
    message.extend(&head[2..]);
    message.extend(body);
    let (proto, initial) = match ends {
        [IpAddr::V4(_), _] => (1, 0),
        [src, dst] => (58, checksum::pseudo(src, dst, 58, message.len() as u16).unwrap()),
    };
    let sum = checksum::of(&message, initial);
    message[2..4].copy_from_slice(&sum.to_be_bytes());
    ip(link, ends, proto, &message, shape, None)
}

/// ARP: `operation` 1 asks, 2 answers.
#[must_use]
pub fn arp(link: Link, operation: u8, [sender, target]: [IpAddr; 2]) -> Vec<u8> {
    let (IpAddr::V4(sender), IpAddr::V4(target)) = (sender, target) else {
        panic!("ARP is for IPv4");
    };
    let mut frame = ethernet(link, 0x0806);
    frame.extend([0, 1, 8, 0, 6, 4, 0, operation]);
    frame.extend(link.src);
    frame.extend(sender.octets());
    frame.extend(if operation == 1 { [0; 6] } else { link.dst });
    frame.extend(target.octets());
    frame
}

/// A neighbour solicitation (135) or advertisement (136) about `target`.
#[must_use]
pub fn ndp(link: Link, kind: u8, ends: [IpAddr; 2], target: IpAddr) -> Vec<u8> {
    let IpAddr::V6(target) = target else { panic!("NDP is for IPv6") };
    let (flags, option) = if kind == 135 { (0, 1) } else { (0x60, 2) };
    let mut body = target.octets().to_vec();
    body.extend([option, 1]);
    body.extend(link.src);
    let shape = Shape { ttl: 255, ..Shape::default() };
    icmp(link, ends, [kind, 0, flags, 0, 0, 0], &body, &shape)
}

/// An ICMP error about the IP packet in `frame`, from `from` to that packet's
/// sender; `None` if it is no TCP or UDP packet.
#[must_use]
pub fn complaint(link: Link, frame: &[u8], from: IpAddr, too_big: bool) -> Option<Vec<u8>> {
    let headers = wire::Headers::parse(frame).ok()?;
    let to = headers.flow(frame)?.src().ip();
    let packet = frame.get(usize::from(headers.l3)..usize::from(headers.end))?;
    let quoted = &packet[..packet.len().min(120)];
    let head = match (to.is_ipv4(), too_big) {
        (true, true) => [3, 4, 0, 0, 5, 0],
        (true, false) => [3, 1, 0, 0, 0, 0],
        (false, true) => [2, 0, 0, 0, 5, 0],
        (false, false) => [1, 3, 0, 0, 0, 0],
    };
    let shape = Shape { ttl: 60, ..Shape::default() };
    (from.is_ipv4() == to.is_ipv4()).then(|| icmp(link, [from, to], head, quoted, &shape))
}
