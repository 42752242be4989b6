//! Who has sent a packet, and to whom: addresses and ports as words in the order that a
//! packet has them in memory, so that a fast path converts nothing.
use std::hash::{Hash, Hasher};
use std::net::{IpAddr, SocketAddr};

use wire::{FastHeader, FastRewrite, checksum};

/// A TCP packet's 5-tuple. `K` is 1 for IPv4 and 4 for IPv6, as in [`FastHeader`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ends<const K: usize> {
    /// Source, then destination address.
    pub addresses: [u64; K],
    /// Source, then destination port.
    pub ports: u32,
}

/// The map's hash is keyed, so the words go in as they are.
impl<const K: usize> Hash for Ends<K> {
    #[inline]
    fn hash<H: Hasher>(&self, state: &mut H) {
        for word in self.addresses {
            state.write_u64(word);
        }
        state.write_u32(self.ports);
    }
}

impl<const K: usize> From<&FastHeader<K>> for Ends<K> {
    #[inline(always)]
    fn from(header: &FastHeader<K>) -> Self {
        Self { addresses: header.addresses, ports: header.ports }
    }
}

impl<const K: usize> Default for Ends<K> {
    fn default() -> Self {
        Self { addresses: [0; K], ports: 0 }
    }
}

impl<const K: usize> Ends<K> {
    /// The ends of a packet from the first to the second; `None`: their family has
    /// another number of words.
    pub(crate) fn of([src, dst]: [SocketAddr; 2]) -> Option<Self> {
        let mut bytes = [0; 32];
        let octets = bytes.get_mut(..8 * K)?;
        let (from, to) = octets.split_at_mut(4 * K);
        for (into, address) in [(from, src.ip()), (to, dst.ip())] {
            match address {
                IpAddr::V4(address) if K == 1 => into.copy_from_slice(&address.octets()),
                IpAddr::V6(address) if K == 4 => into.copy_from_slice(&address.octets()),
                _ => return None,
            }
        }
        let mut words = bytes.chunks_exact(8).map(|word| word.first_chunk().copied());
        let mut next = || u64::from_ne_bytes(words.next().flatten().unwrap_or_default());
        let addresses = std::array::from_fn(|_| next());
        let ports = u32::from(src.port()) << 16 | u32::from(dst.port());
        Some(Self { addresses, ports: ports.to_be() })
    }

    /// The ends of a packet in the other direction.
    #[inline(always)]
    pub(crate) fn turned(&self) -> Self {
        let ports = self.ports.rotate_left(16);
        let half = K / 2;
        let addresses = match half {
            0 => self.addresses.map(|word| word.rotate_left(32)),
            _ => std::array::from_fn(|at| {
                self.addresses.get((at + half) % K).copied().unwrap_or_default()
            }),
        };
        Self { addresses, ports }
    }

    /// Source and destination address.
    pub(crate) fn addresses(&self) -> [IpAddr; 2] {
        let mut bytes = [0; 32];
        for (into, word) in bytes.chunks_exact_mut(8).zip(self.addresses) {
            into.copy_from_slice(&word.to_ne_bytes());
        }
        let [a, b, c, d, e, f, g, h, ..] = bytes;
        if K == 1 {
            return [IpAddr::from([a, b, c, d]), IpAddr::from([e, f, g, h])];
        }
        let address = |half: &[u8]| IpAddr::from(<[u8; 16]>::try_from(half).unwrap_or_default());
        let (source, destination) = bytes.split_at(16);
        [address(source), address(destination)]
    }

    /// What makes a packet with the ends `self` one with the ends `new`.
    pub(crate) fn rewrite_to(&self, new: &Self) -> FastRewrite<K> {
        let bytes = |ends: &Self| {
            let mut all = [0; 36];
            let words = ends.addresses.iter().map(|word| word.to_ne_bytes());
            for (into, word) in all.chunks_exact_mut(8).zip(words) {
                into.copy_from_slice(&word);
            }
            if let Some(into) = all.last_chunk_mut() {
                *into = ends.ports.to_ne_bytes();
            }
            all
        };
        let (old, fresh) = (bytes(self), bytes(new));
        let addresses = |all: &[u8; 36]| <[u8; 32]>::try_from(&all[..32]).unwrap_or([0; 32]);
        let net_delta = match K {
            1 => checksum::delta(&addresses(&old), &addresses(&fresh)).to_be(),
            _ => 0,
        };
        FastRewrite {
            addresses: new.addresses,
            ports: new.ports,
            net_delta,
            transport_delta: checksum::delta(&old, &fresh).to_be(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ends_turn_and_differ_by_family() {
        let v4 = ["10.0.0.1:1000", "10.0.0.100:80"].map(|end| end.parse().unwrap());
        let v6 = ["[fd00::1]:1000", "[fd00::2:0:0:1]:80"].map(|end| end.parse().unwrap());
        let turn = |[src, dst]: [SocketAddr; 2]| [dst, src];
        assert_eq!(Ends::<1>::of(v4).unwrap().turned(), Ends::of(turn(v4)).unwrap());
        assert_eq!(Ends::<4>::of(v6).unwrap().turned(), Ends::of(turn(v6)).unwrap());
        assert_eq!((Ends::<4>::of(v4), Ends::<1>::of(v6)), (None, None));
        let [from, to] = [v4, turn(v4)].map(|ends| Ends::<1>::of(ends).unwrap());
        assert_ne!(from.rewrite_to(&to).ports, from.ports);
    }
}
