//! Keys of the match table; the layout is that of `struct entry` in `bpf/table.h`.
use std::net::{IpAddr, Ipv6Addr, SocketAddr};

use wire::{FlowKey, FlowV4, FlowV6, Transport};

use crate::stateless;

/// Words of an entry: version, packets, bytes, key.
pub(crate) const WORDS: usize = 8;

/// The kinds of keys that are not a connection's.
const GATE: u8 = 1;
const GUARD: u8 = 2;

/// The 5-tuple of one direction of a connection, as it lies in its packets.
///
/// An IPv4 key has both addresses in the first word. No key's last word is zero,
/// which is how an empty entry is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Key(pub(crate) [u64; 5]);

impl Key {
    /// The key of packets of `flow`.
    #[must_use]
    pub fn new(flow: &FlowKey) -> Self {
        let last = |sport: u16, dport: u16, protocol: u8, version: u8| {
            let ([a, b], [c, d]) = (sport.to_be_bytes(), dport.to_be_bytes());
            u64::from_le_bytes([a, b, c, d, protocol, version, 0, 0])
        };
        match *flow {
            FlowKey::V4(FlowV4 { src, dst, sport, dport, proto }) => {
                let ([a, b, c, d], [e, f, g, h]) = (src.octets(), dst.octets());
                let addresses = u64::from_le_bytes([a, b, c, d, e, f, g, h]);
                Self([addresses, 0, 0, 0, last(sport, dport, proto.number(), 4)])
            }
            FlowKey::V6(FlowV6 { src, dst, sport, dport, proto }) => {
                let ((a, b), (c, d)) = (halves(src.octets()), halves(dst.octets()));
                Self([a, b, c, d, last(sport, dport, proto.number(), 6)])
            }
        }
    }

    /// The key that stands for all packets to a service without connections; without
    /// `port` it has all ports.
    pub(crate) fn gate(vip: IpAddr, port: Option<u16>, protocol: Transport) -> Self {
        let [p, q] = port.unwrap_or(0).to_be_bytes();
        let last = |version| u64::from_le_bytes([0, 0, p, q, protocol.number(), version, GATE, 0]);
        match vip {
            IpAddr::V4(vip) => {
                let [a, b, c, d] = vip.octets();
                Self([u64::from_le_bytes([0, 0, 0, 0, a, b, c, d]), 0, 0, 0, last(4)])
            }
            IpAddr::V6(vip) => {
                let (first, second) = halves(vip.octets());
                Self([0, 0, first, second, last(6)])
            }
        }
    }

    /// Whether a gate's key has a port.
    pub(crate) const fn has_port(&self) -> bool {
        self.0[4] as u32 != 0
    }

    /// The key that stands for packets of a group from `source`.
    pub(crate) fn guard(group: u32, source: IpAddr) -> Self {
        let [a, b, c, d] = group.to_le_bytes();
        let version = if source.is_ipv6() { 6 } else { 4 };
        let [first, second] = stateless::words(source);
        Self([first, second, 0, 0, u64::from_le_bytes([a, b, c, d, 0, version, GUARD, 0])])
    }

    /// The packets whose key it is; `None`: there are none.
    pub(crate) fn flow(&self) -> Option<FlowKey> {
        let [a, b, c, d, last] = self.0;
        let [p, q, r, s, protocol, version, kind, _] = last.to_le_bytes();
        if kind != 0 {
            return None;
        }
        let (source, destination) = match version {
            4 => {
                let [e, f, g, h, i, j, k, l] = a.to_le_bytes();
                (IpAddr::from([e, f, g, h]), IpAddr::from([i, j, k, l]))
            }
            6 => (whole(a, b).into(), whole(c, d).into()),
            _ => return None,
        };
        let (sport, dport) = (u16::from_be_bytes([p, q]), u16::from_be_bytes([r, s]));
        let ends = (SocketAddr::new(source, sport), SocketAddr::new(destination, dport));
        FlowKey::new(Transport::from_number(protocol)?, ends.0, ends.1)
    }

    /// The two places in a table of `slots` entries; they may be the same.
    pub(crate) fn places(&self, seed: u64, slots: u32) -> [u32; 2] {
        let [first, middle @ .., last] = &self.0;
        let mut hash = mix(seed, *first);
        if last.to_le_bytes()[5] == 6 {
            hash = middle.iter().fold(hash, |hash, word| mix(hash, *word));
        }
        hash = mix(hash, *last);
        [hash & 0xffff_ffff, hash >> 32].map(|half| ((half * u64::from(slots)) >> 32) as u32)
    }
}

fn mix(hash: u64, word: u64) -> u64 {
    let hash = (hash ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    hash ^ (hash >> 32)
}

/// An IPv6 address as two words in the order of memory.
pub(crate) fn halves(octets: [u8; 16]) -> (u64, u64) {
    let word = u128::from_le_bytes(octets);
    (word as u64, (word >> 64) as u64)
}

/// The IPv6 address of the words that [`halves`] gives.
pub(crate) fn whole(first: u64, second: u64) -> Ipv6Addr {
    Ipv6Addr::from((u128::from(second) << 64 | u128::from(first)).to_le_bytes())
}
