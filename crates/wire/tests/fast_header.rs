//! The fast path's header and rewrite beside the general parser and rewrite:
//! what the one takes, it reads and writes as the other does.
#![allow(clippy::unwrap_used)]

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use proptest::prelude::*;
use wire::fast_header::{is_for, mac_pair, tag_len};
use wire::{
    FastHeader, FastRewrite, Fragment, Headers, Mac, Net, Rewrite, TcpFlags, Transport,
    decrement_ttl, ethernet,
};

const OWN: Mac = Mac([2, 0, 0, 0, 0, 9]);
const THERE: Mac = Mac([2, 0, 0, 0, 7, 1]);
const DECISIVE: u8 = TcpFlags::SYN | TcpFlags::FIN | TcpFlags::RST;

/// What differs between frames.
#[derive(Clone, Debug)]
struct Shape {
    v6: bool,
    tag: Option<u16>,
    proto: Transport,
    data: Vec<u8>,
    ttl: u8,
    sum: u16,
    padded: bool,
}

fn shape() -> impl Strategy<Value = Shape> {
    let data = prop::collection::vec(any::<u8>(), 0..40);
    let proto = prop_oneof![Just(Transport::Tcp), Just(Transport::Udp)];
    (any::<bool>(), any::<Option<u16>>(), proto, data, any::<u8>(), any::<u16>(), any::<bool>())
        .prop_map(|(v6, tag, proto, data, ttl, sum, padded)| Shape {
            v6,
            tag,
            proto,
            data,
            ttl,
            sum,
            padded,
        })
}

/// A frame of this shape and what Ethernet puts behind it.
fn frame(shape: &Shape) -> Vec<u8> {
    let is_tcp = shape.proto == Transport::Tcp;
    let header: usize = if is_tcp { 20 } else { 8 };
    let length = (header + shape.data.len()) as u16;
    let mut frame = [&OWN.0[..], &[2, 9, 9, 9, 9, 9]].concat();
    if let Some(tag) = shape.tag {
        frame.extend([0x81, 0]);
        frame.extend(tag.to_be_bytes());
    }
    if shape.v6 {
        frame.extend([0x86, 0xdd, 0x6a, 0xbc, 0xde, 0xf0]);
        frame.extend(length.to_be_bytes());
        frame.extend([shape.proto.number(), shape.ttl]);
        frame.extend(Ipv6Addr::new(0x2001, 0xdb8, 1, 2, 3, 4, 5, 6).octets());
        frame.extend(Ipv6Addr::new(0xfd00, 7, 6, 5, 4, 3, 2, 1).octets());
    } else {
        frame.extend([8, 0, 0x45, 3]);
        frame.extend((length + 20).to_be_bytes());
        frame.extend([0, 7, 0x40, 0, shape.ttl, shape.proto.number(), 0xab, 0xcd]);
        frame.extend([192, 0, 2, 1, 198, 51, 100, 7]);
    }
    let mut transport =
        vec![0x12, 0x34, 0, 80, 0, 0, 0, 1, 0, 0, 0, 2, 0x50, 0x10, 1, 0, 0, 0, 0, 0];
    transport.truncate(header);
    if !is_tcp {
        transport[4..6].copy_from_slice(&length.to_be_bytes());
    }
    let at = if is_tcp { 16 } else { 6 };
    transport[at..at + 2].copy_from_slice(&shape.sum.to_be_bytes());
    frame.extend(transport);
    frame.extend(&shape.data);
    while shape.padded && frame.len() < 60 {
        frame.push(0);
    }
    frame
}

/// A header of either family in words that both have.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Read {
    v6: bool,
    addresses: Vec<u64>,
    ports: u32,
    length: u32,
    proto: Transport,
    flags: TcpFlags,
}

impl<const K: usize> From<FastHeader<K>> for Read {
    fn from(header: FastHeader<K>) -> Self {
        let FastHeader { addresses, ports, length, proto, flags } = header;
        Self { v6: K == 4, addresses: addresses.to_vec(), ports, length, proto, flags }
    }
}

type Reader<const K: usize> = fn(&[u8], usize) -> Option<FastHeader<K>>;

/// What one of the families makes of the frame; never both do.
fn by(frame: &[u8], v4: Reader<1>, v6: Reader<4>) -> Option<Read> {
    let tag = tag_len(frame);
    let (v4, v6) = (v4(frame, tag).map(Read::from), v6(frame, tag).map(Read::from));
    assert!(v4.is_none() || v6.is_none());
    v4.or(v6)
}

fn read(frame: &[u8]) -> Option<Read> {
    by(frame, FastHeader::of, FastHeader::of)
}

fn opening(frame: &[u8]) -> Option<Read> {
    fn header<const K: usize>(frame: &[u8], tag: usize) -> Option<FastHeader<K>> {
        let (header, opens) = FastHeader::or_opening(frame, tag)?;
        let is_syn = header.proto == Transport::Tcp && header.flags.opens();
        assert_eq!((opens, FastHeader::<K>::of(frame, tag).is_none()), (is_syn, is_syn));
        Some(header)
    }
    by(frame, header, header)
}

/// Asserts that the general parser finds in the frame what the fast path has
/// read, and nothing that the fast path must not take.
fn agrees(frame: &[u8], read: &Read) {
    let headers = Headers::parse(frame).unwrap();
    let flow = headers.flow(frame).unwrap();
    assert_eq!(headers.net, if read.v6 { Net::Ipv6 } else { Net::Ipv4 }, "{frame:02x?}");
    assert_eq!((flow.proto(), headers.fragment), (read.proto, Fragment::Whole), "{frame:02x?}");
    let ip = |addr: IpAddr| match addr {
        IpAddr::V4(addr) => addr.octets().to_vec(),
        IpAddr::V6(addr) => addr.octets().to_vec(),
    };
    let addresses = [ip(flow.src().ip()), ip(flow.dst().ip())].concat();
    let words: Vec<u8> = read.addresses.iter().flat_map(|word| word.to_ne_bytes()).collect();
    assert_eq!(words, addresses);
    let ports = [flow.src().port().to_be_bytes(), flow.dst().port().to_be_bytes()].concat();
    assert_eq!(read.ports.to_ne_bytes()[..], ports);
    assert_eq!(u32::from(headers.end - headers.l3), read.length);
    assert!(headers.ttl > 1);
    // Nothing is behind the packet that would have to be cut.
    assert_eq!(usize::from(headers.end).max(frame.len().min(60)), frame.len());
    let transport = if read.proto == Transport::Tcp { 20 } else { 8 };
    assert!(headers.end - headers.l4 >= transport);
    if read.proto == Transport::Tcp {
        assert_eq!(headers.tcp_flags, read.flags);
    }
}

fn words<const K: usize>(bytes: &[u8]) -> [u64; K] {
    std::array::from_fn(|at| u64::from_ne_bytes(bytes[8 * at..8 * at + 8].try_into().unwrap()))
}

/// The fast path's rewrite of `frame` by the values of the general `plan`.
fn rewrite(frame: &mut [u8], plan: &Rewrite, proto: Transport) {
    let tag = tag_len(frame);
    match plan {
        Rewrite::V4(plan) => FastRewrite::<1> {
            addresses: words(&plan.addresses),
            ports: u32::from_ne_bytes(plan.ports),
            net_delta: plan.net_delta.to_be(),
            transport_delta: plan.transport_delta.to_be(),
        }
        .apply(frame, tag, proto),
        Rewrite::V6(plan) => FastRewrite::<4> {
            addresses: words(&plan.addresses),
            ports: u32::from_ne_bytes(plan.ports),
            net_delta: 0,
            transport_delta: plan.transport_delta.to_be(),
        }
        .apply(frame, tag, proto),
    }
    frame[..12].copy_from_slice(&mac_pair(THERE, OWN));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1024))]
    /// A fast frame has the headers that the general parser finds, and comes out
    /// as the general rewrite makes it.
    #[test]
    fn the_fast_path_does_what_the_general_way_does(
        shape in shape(), net_sum: u16, client: u128, server: u128, sport: u16, dport: u16,
    ) {
        let mut frame = frame(&shape);
        if !shape.v6 {
            let at = 24 + tag_len(&frame);
            frame[at..at + 2].copy_from_slice(&net_sum.to_be_bytes());
        }
        let Some(header) = read(&frame) else {
            // Unpadded UDP in IPv4 ends before the bytes that every fast frame has.
            let short = !shape.v6 && frame.len() < 54 + tag_len(&frame);
            prop_assert!(shape.ttl <= 1 || short);
            return Ok(());
        };
        agrees(&frame, &header);
        prop_assert_eq!(opening(&frame), Some(header.clone()));
        let again: Option<Read> = match (shape.v6, tag_len(&frame)) {
            (false, tag) => FastHeader::<1>::again(&frame, tag).map(Read::from),
            (true, tag) => FastHeader::<4>::again(&frame, tag).map(Read::from),
        };
        prop_assert_eq!(again, Some(header.clone()));
        let headers = Headers::parse(&frame).unwrap();
        let flow = headers.flow(&frame).unwrap();
        let ip = |bits: u128| match shape.v6 {
            true => IpAddr::from(Ipv6Addr::from_bits(bits)),
            false => IpAddr::from(Ipv4Addr::from_bits(bits as u32)),
        };
        let new = (SocketAddr::new(ip(client), sport), SocketAddr::new(ip(server), dport));
        let plan = Rewrite::both((flow.src(), flow.dst()), new).unwrap();
        let mut expected = frame.clone();
        prop_assert!(plan.apply(&mut expected, &headers));
        prop_assert!(decrement_ttl(&mut expected, &headers));
        prop_assert!(ethernet::set_macs(&mut expected, THERE, OWN));
        rewrite(&mut frame, &plan, header.proto);
        prop_assert_eq!(frame, expected);
    }
}

/// One frame of each family and protocol, tagged and not, with and without data.
fn bases() -> Vec<Vec<u8>> {
    let data: Vec<u8> = (1..=20).collect();
    let mut frames = Vec::new();
    for v6 in [false, true] {
        for tag in [None, Some(0xe005)] {
            for (proto, data) in [
                (Transport::Tcp, &data[..8]),
                (Transport::Tcp, &[]),
                (Transport::Udp, &data),
                (Transport::Udp, &[]),
            ] {
                let data = data.to_vec();
                frames.push(frame(&Shape { v6, tag, proto, data, ttl: 9, sum: 77, padded: true }));
            }
        }
    }
    frames
}

/// Whatever byte is changed, wherever the frame ends: what is still a fast frame
/// is what the general parser says.
#[test]
fn nothing_else_is_a_fast_frame() {
    for base in bases() {
        let header = read(&base).unwrap();
        assert!(header.flags.0 & DECISIVE == 0 || header.proto == Transport::Udp);
        assert_eq!(read(&[&base[..], &[0]].concat()), None, "a tail");
        for len in 0..base.len() {
            assert!(read(&base[..len]).is_none_or(|read| {
                agrees(&base[..len], &read);
                true
            }));
        }
        for at in 0..base.len() {
            for value in 0..=255 {
                let mut frame = base.clone();
                frame[at] = value;
                for header in [read(&frame), opening(&frame)].into_iter().flatten() {
                    agrees(&frame, &header);
                }
                let decisive =
                    |read: Read| read.proto == Transport::Tcp && read.flags.any(DECISIVE);
                assert!(!read(&frame).is_some_and(decisive));
            }
        }
    }
}

/// Whatever byte of a first packet is changed, with a right header checksum and with
/// a wrong one: the fast path finds it sound where the general check does.
#[test]
fn first_packets_are_checked_as_the_general_way_checks_them() {
    fn agrees<const K: usize>(frame: &[u8]) -> Option<bool> {
        let tag = tag_len(frame);
        let (header, _) = FastHeader::<K>::or_opening(frame, tag)?;
        if !header.may_open() {
            return None;
        }
        let headers = Headers::parse(frame).unwrap();
        let sound = [true, false].map(|verified| {
            let sound = header.is_sound(frame, tag, verified);
            assert_eq!(sound, headers.check(frame, verified).is_ok(), "{frame:02x?}");
            sound
        });
        assert!(K == 1 || sound[0] == sound[1]);
        Some(sound[1])
    }
    let mut found = [0, 0];
    for mut base in bases() {
        let l3 = 14 + tag_len(&base);
        if read(&base).unwrap().proto == Transport::Tcp {
            let v6 = Headers::parse(&base).unwrap().net == Net::Ipv6;
            base[l3 + if v6 { 53 } else { 33 }] = TcpFlags::SYN;
        }
        for at in 0..base.len() {
            for value in 0..=255 {
                let mut frame = base.clone();
                frame[at] = value;
                for repaired in [false, true] {
                    if repaired && frame[l3] >> 4 == 4 {
                        frame[l3 + 10..l3 + 12].fill(0);
                        let sum = wire::checksum::of(&frame[l3..l3 + 20], 0);
                        frame[l3 + 10..l3 + 12].copy_from_slice(&sum.to_be_bytes());
                    }
                    if let Some(sound) = agrees::<1>(&frame).or_else(|| agrees::<4>(&frame)) {
                        found[usize::from(sound)] += 1;
                    }
                }
            }
        }
    }
    assert!(found.iter().all(|found| *found > 10_000), "{found:?}");
}

/// A packet that opens a connection is a fast frame but for its SYN.
#[test]
fn first_packets_are_fast_but_for_syn() {
    for v6 in [false, true] {
        for tag in [None, Some(7)] {
            let shape = Shape {
                v6,
                tag,
                proto: Transport::Tcp,
                data: vec![5; 8],
                ttl: 9,
                sum: 77,
                padded: true,
            };
            let base = frame(&shape);
            let at = tag_len(&base) + if v6 { 67 } else { 47 };
            for flags in 0..=255 {
                let (mut flagged, mut cleared) = (base.clone(), base.clone());
                (flagged[at], cleared[at]) = (flags, flags & !TcpFlags::SYN);
                let opens = flags & 0x17 == TcpFlags::SYN;
                let expected = read(if opens { &cleared } else { &flagged });
                let expected = expected.map(|read| Read { flags: TcpFlags(flags), ..read });
                assert_eq!(opening(&flagged), expected, "{flags:02x}");
            }
            let udp = frame(&Shape { proto: Transport::Udp, data: vec![2; 30], ..shape.clone() });
            assert_eq!(opening(&udp), read(&udp));
            let mut syn = base.clone();
            syn[at] = TcpFlags::SYN;
            assert!(opening(&syn).is_some() && opening(&[&syn[..], &[0]].concat()).is_none());
            for (v4_at, v6_at, value) in
                [(13, 13, 6), (14, 14, 0x75), (16, 18, 9), (22, 21, 1), (23, 20, 1)]
            {
                let mut frame = syn.clone();
                frame[tag_len(&base) + if v6 { v6_at } else { v4_at }] = value;
                assert_eq!(opening(&frame), None, "byte {v4_at} or {v6_at}");
            }
        }
    }
}

#[test]
fn what_opens_a_connection() {
    let header = |proto, flags| FastHeader::<1> {
        addresses: [0],
        ports: 0,
        length: 40,
        proto,
        flags: TcpFlags(flags),
    };
    let (syn, ack) = (TcpFlags::SYN, TcpFlags::ACK);
    for (header, may_open) in [
        (header(Transport::Tcp, syn), true),
        (header(Transport::Tcp, syn | ack), false),
        (header(Transport::Tcp, ack), false),
        (header(Transport::Udp, syn), true),
        (header(Transport::Udp, ack), true),
    ] {
        assert_eq!(header.may_open(), may_open, "{header:?}");
    }
}

#[test]
fn a_frame_is_for_its_destination_alone() {
    for base in bases() {
        assert!(is_for(&base, OWN));
        for bit in 0..48 {
            let mut frame = base.clone();
            frame[bit / 8] ^= 1 << (bit % 8);
            assert!(!is_for(&frame, OWN));
        }
        assert!(!is_for(&base[..53], OWN));
    }
}
