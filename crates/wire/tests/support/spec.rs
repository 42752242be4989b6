//! Valid frames from a description, written byte by byte; checksums are left
//! to the oracle.
use std::net::{IpAddr, SocketAddr};

use proptest::prelude::*;

/// This many cases, and no file of failures: seeds belong into a test.
pub(crate) fn config(cases: u32) -> ProptestConfig {
    ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(cases) }
}

/// A frame to make.
#[derive(Clone, Debug)]
pub(crate) struct Spec {
    /// Tag control information.
    pub(crate) tag: Option<u16>,
    /// Source and destination; of one family.
    pub(crate) ends: (SocketAddr, SocketAddr),
    /// IPv4 options in words, or IPv6 extension headers as (type, size in 8 bytes).
    pub(crate) options: Vec<(u8, u8)>,
    /// (id, offset in 8 bytes, more fragments).
    pub(crate) fragment: Option<(u32, u16, bool)>,
    pub(crate) ttl: u8,
    pub(crate) proto: u8,
    pub(crate) flags: u8,
    /// UDP without checksum.
    pub(crate) bare: bool,
    pub(crate) payload: Vec<u8>,
    /// Ethernet padding behind the datagram.
    pub(crate) padding: usize,
}

impl Spec {
    pub(crate) fn build(&self) -> Vec<u8> {
        let (src, dst) = (self.ends.0.ip(), self.ends.1.ip());
        let transport = self.transport();
        let mut frame = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2];
        if let Some(tag) = self.tag {
            frame.extend([0x81, 0]);
            frame.extend(tag.to_be_bytes());
        }
        match (src, dst) {
            (IpAddr::V4(src), IpAddr::V4(dst)) => {
                frame.extend([0x08, 0x00]);
                let header = 20 + 4 * self.options.len();
                let (id, offset, more) = self.fragment.unwrap_or((7, 0, false));
                frame.extend([0x40 | (header / 4) as u8, 0]);
                frame.extend(((header + transport.len()) as u16).to_be_bytes());
                frame.extend((id as u16).to_be_bytes());
                frame.extend((offset | u16::from(more) << 13).to_be_bytes());
                frame.extend([self.ttl, self.proto, 0, 0]);
                frame.extend(src.octets());
                frame.extend(dst.octets());
                for _ in &self.options {
                    frame.extend([1, 1, 1, 1]);
                }
            }
            (IpAddr::V6(src), IpAddr::V6(dst)) => {
                frame.extend([0x86, 0xdd, 0x60, 0, 0, 0]);
                let (first, chain) = self.chain();
                frame.extend(((chain.len() + transport.len()) as u16).to_be_bytes());
                frame.extend([first, self.ttl]);
                frame.extend(src.octets());
                frame.extend(dst.octets());
                frame.extend(chain);
            }
            _ => panic!("two families"),
        }
        frame.extend(transport);
        frame.extend(vec![0xee; self.padding]);
        frame
    }

    /// The first header's type, and the extension headers.
    fn chain(&self) -> (u8, Vec<u8>) {
        let mut headers = self.options.clone();
        if self.fragment.is_some() {
            headers.push((44, 1));
        }
        let mut bytes = Vec::new();
        for (index, (kind, size)) in headers.iter().enumerate() {
            let next = headers.get(index + 1).map_or(self.proto, |header| header.0);
            let mut header = vec![0; usize::from(*size) * 8];
            header[0] = next;
            match kind {
                44 => {
                    let (id, offset, more) = self.fragment.unwrap();
                    header[2..4].copy_from_slice(&(offset << 3 | u16::from(more)).to_be_bytes());
                    header[4..].copy_from_slice(&id.to_be_bytes());
                }
                51 => header[1] = size * 2 - 2,
                _ => header[1] = size - 1,
            }
            bytes.extend(header);
        }
        (headers.first().map_or(self.proto, |header| header.0), bytes)
    }

    fn transport(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        let later = self.fragment.is_some_and(|(_, offset, _)| offset > 0);
        let (sport, dport) = (self.ends.0.port().to_be_bytes(), self.ends.1.port().to_be_bytes());
        match self.proto {
            _ if later => {}
            6 => {
                bytes.extend([sport, dport].concat());
                bytes.extend([1, 2, 3, 4, 5, 6, 7, 8, 0x50, self.flags, 0x10, 0, 0, 0, 0, 0]);
            }
            17 => {
                bytes.extend([sport, dport].concat());
                bytes.extend((8 + self.payload.len() as u16).to_be_bytes());
                bytes.extend([0, 0]);
            }
            1 => bytes.extend([8, 0, 0, 0, 1, 2, 3, 4]),
            58 => bytes.extend([128, 0, 0, 0, 1, 2, 3, 4]),
            _ => {}
        }
        bytes.extend(&self.payload);
        bytes
    }
}

/// Words that checksums go wrong at.
pub(crate) fn corner() -> impl Strategy<Value = u16> {
    prop_oneof![
        3 => any::<u16>(),
        1 => proptest::sample::select(vec![0, 1, 0xff, 0x100, 0x7fff, 0x8000, 0xfffe, 0xffff]),
    ]
}

pub(crate) fn socket(v4: bool) -> BoxedStrategy<SocketAddr> {
    if v4 {
        ([corner(), corner()], corner())
            .prop_map(|([a, b], port)| {
                SocketAddr::new(((u32::from(a) << 16 | u32::from(b)).to_be_bytes()).into(), port)
            })
            .boxed()
    } else {
        (proptest::array::uniform8(corner()), corner())
            .prop_map(|(segments, port)| SocketAddr::new(segments.into(), port))
            .boxed()
    }
}

pub(crate) fn sockets(v4: bool) -> impl Strategy<Value = (SocketAddr, SocketAddr)> {
    (socket(v4), socket(v4))
}

/// IPv4 options, or an IPv6 chain with hop-by-hop options at most in front.
fn options(v4: bool) -> BoxedStrategy<Vec<(u8, u8)>> {
    if v4 {
        return prop_oneof![2 => Just(0), 1 => 0..=10usize]
            .prop_map(|words| vec![(1, 1); words])
            .boxed();
    }
    let other =
        proptest::sample::select(vec![(43, 1), (43, 3), (60, 1), (60, 2), (51, 2), (51, 3)]);
    let chain = (any::<bool>(), proptest::collection::vec(other, 0..=6));
    prop_oneof![1 => Just((false, Vec::new())), 2 => chain]
        .prop_map(|(hop_by_hop, mut chain)| {
            if hop_by_hop {
                chain.insert(0, (0, 2));
            }
            chain
        })
        .boxed()
}

fn fragment(v4: bool) -> BoxedStrategy<Option<(u32, u16, bool)>> {
    let id = if v4 { (0..=0xffff_u32).boxed() } else { any::<u32>().boxed() };
    prop_oneof![
        3 => Just(None),
        1 => (id, prop_oneof![Just(0), 3..500u16], any::<bool>()).prop_map(Some),
    ]
    .boxed()
}

/// Any valid frame of TCP, UDP, echo or another protocol.
pub(crate) fn spec() -> impl Strategy<Value = Spec> {
    any::<bool>().prop_flat_map(|v4| {
        let icmp = if v4 { 1 } else { 58 };
        let proto = proptest::sample::select(vec![6, 6, 6, 17, 17, 17, icmp, 132, 50]);
        let front = (proptest::option::of(any::<u16>()), sockets(v4), options(v4), fragment(v4));
        let payload = proptest::collection::vec(any::<u8>(), 0..64);
        let back = (any::<u8>(), proto, any::<u8>(), any::<bool>(), payload, 0..20usize);
        (front, back).prop_map(|((tag, ends, options, fragment), back)| {
            let (ttl, proto, flags, bare, mut payload, padding) = back;
            if fragment.is_some_and(|(_, _, more)| more) {
                let header = if proto == 6 { 20 } else { 8 };
                payload.resize(64 - header % 8, 9);
                if proto == 132 || proto == 50 {
                    payload.resize(64, 9);
                }
                if fragment.is_some_and(|(_, offset, _)| offset > 0) {
                    payload.resize(64, 9);
                }
            }
            Spec { tag, ends, options, fragment, ttl, proto, flags, bare, payload, padding }
        })
    })
}

/// A whole TCP or UDP frame.
pub(crate) fn balanced() -> impl Strategy<Value = Spec> {
    (spec(), any::<bool>()).prop_map(|(spec, tcp)| Spec {
        fragment: None,
        proto: if tcp { 6 } else { 17 },
        ..spec
    })
}
