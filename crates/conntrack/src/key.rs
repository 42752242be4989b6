//! 5-tuples as machine words.
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};

use service::{Binding, Forwarding};
use wire::rewrite::{Rewrite4, Rewrite6};
use wire::{FastHeader, FlowKey, FlowV4, FlowV6, Rewrite, Side, Transport, checksum};

/// A 5-tuple in words: `K` is 1 for IPv4 and 4 for IPv6. The words are as a
/// packet has them in memory, so that nothing is byte-swapped on the fast path:
/// a [`FastHeader`] is a key without conversion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Key<const K: usize> {
    /// Source, then destination address.
    pub addresses: [u64; K],
    /// Source, then destination port.
    pub ports: u32,
    /// TCP or UDP.
    pub proto: Transport,
}

/// IPv4.
pub(crate) type Key4 = Key<1>;
/// IPv6.
pub(crate) type Key6 = Key<4>;

/// What differs between the families.
pub trait Family: Copy {
    /// The bit that names the family in a connection's id.
    const ID_BIT: u32;
    /// Which hash keys the family takes from the seed.
    const STREAM: u32;
    /// Whether a slot of the index holds the key whole, so that what it refers
    /// to needs no look at the record.
    const WHOLE: bool;
    /// Whether the network header has a checksum.
    const HEADER_SUM: bool;
    /// Source and destination address.
    fn ips(&self) -> (IpAddr, IpAddr);
    /// The same 5-tuple in numbers.
    fn flow(&self) -> FlowKey;
    /// A rewrite to those of this key's endpoints that `side` names.
    fn rewrite(&self, deltas: Deltas, side: Side) -> Rewrite;
}

/// The checksum changes of one direction: those of [`wire::Rewrite`] in the
/// order that a packet has them in memory. Ones' complement sums may be taken
/// in either order (RFC 1071, section 2).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Deltas {
    /// Of the IPv4 header's; zero for IPv6.
    pub(crate) net: u16,
    /// Of the TCP or UDP checksum's.
    pub(crate) transport: u16,
}

impl Deltas {
    /// The changes of both directions of a connection with these keys, forwarded
    /// so: none where packets stay as they are.
    #[inline]
    pub(crate) fn of<const K: usize>(keys: &[Key<K>; 2], forwarding: Forwarding) -> [Self; 2]
    where
        Key<K>: Family,
    {
        if forwarding.is_one_way() { Default::default() } else { Self::of_rewrite(keys) }
    }

    /// The changes of both directions of a connection with these keys, as
    /// [`Rewrite::compile`] works them out: forward from the sums of what comes
    /// in, forward, and what goes out, the reply turned round, which has the same
    /// sums as the reply; backward the opposite. An endpoint that stays makes no
    /// difference, nor would one left out.
    #[inline]
    fn of_rewrite<const K: usize>([forward, reply]: &[Key<K>; 2]) -> [Self; 2]
    where
        Key<K>: Family,
    {
        let all = |key: &Key<K>| key.addresses.iter().map(|word| sum(*word)).sum();
        let net = changes(all(forward), all(reply), 4 * K as u32);
        let ports = |key: &Key<K>| sum(u64::from(key.ports));
        let ports = changes(ports(forward), ports(reply), 2);
        let both = |net: u16, ports: u16| Self {
            net: if <Key<K> as Family>::HEADER_SUM { net } else { 0 },
            transport: checksum::combine(net, ports),
        };
        [both(net[0], ports[0]), both(net[1], ports[1])]
    }
}

/// The folded changes from `old` to `new` and back, sums of `count` 16-bit words:
/// the new words and the complements of the old ones.
#[inline]
const fn changes(old: u32, new: u32, count: u32) -> [u16; 2] {
    let there = new + count * 0xffff - old;
    [checksum::fold(there), checksum::fold(2 * count * 0xffff - there)]
}

/// The sum of the four 16-bit words.
const fn sum(words: u64) -> u32 {
    let pairs = (words & 0x0000_ffff_0000_ffff) + (words >> 16 & 0x0000_ffff_0000_ffff);
    (pairs >> 32) as u32 + pairs as u32
}

impl<const K: usize> From<&FastHeader<K>> for Key<K> {
    #[inline(always)]
    fn from(header: &FastHeader<K>) -> Self {
        Self { addresses: header.addresses, ports: header.ports, proto: header.proto }
    }
}

impl<const K: usize> From<&Key<K>> for FlowKey
where
    Key<K>: Family,
{
    #[inline]
    fn from(key: &Key<K>) -> Self {
        key.flow()
    }
}

impl<const K: usize> Key<K>
where
    Self: Family,
{
    /// Source address and port.
    pub(crate) fn src(&self) -> SocketAddr {
        SocketAddr::new(self.ips().0, (u32::from_be(self.ports) >> 16) as u16)
    }

    /// Destination address and port.
    pub(crate) fn dst(&self) -> SocketAddr {
        SocketAddr::new(self.ips().1, u32::from_be(self.ports) as u16)
    }
}

#[inline]
pub(crate) const fn ports(source: u16, destination: u16) -> u32 {
    ((source as u32) << 16 | destination as u32).to_be()
}

#[inline]
pub(crate) const fn addresses_v4(source: Ipv4Addr, destination: Ipv4Addr) -> [u64; 1] {
    [((source.to_bits() as u64) << 32 | destination.to_bits() as u64).to_be()]
}

#[inline]
const fn addresses_v6(source: Ipv6Addr, destination: Ipv6Addr) -> [u64; 4] {
    let (from, to) = (source.to_bits(), destination.to_bits());
    [
        ((from >> 64) as u64).to_be(),
        (from as u64).to_be(),
        ((to >> 64) as u64).to_be(),
        (to as u64).to_be(),
    ]
}

impl From<&FlowV4> for Key4 {
    #[inline]
    fn from(flow: &FlowV4) -> Self {
        Self {
            addresses: addresses_v4(flow.src, flow.dst),
            ports: ports(flow.sport, flow.dport),
            proto: flow.proto,
        }
    }
}

impl From<&FlowV6> for Key6 {
    #[inline]
    fn from(flow: &FlowV6) -> Self {
        Self {
            addresses: addresses_v6(flow.src, flow.dst),
            ports: ports(flow.sport, flow.dport),
            proto: flow.proto,
        }
    }
}

/// A key of either family.
#[derive(Clone, Copy, Debug)]
pub(crate) enum AnyKey {
    V4(Key4),
    V6(Key6),
}

/// Both keys of a connection of either family.
#[derive(Clone, Copy, Debug)]
pub(crate) enum BothKeys {
    V4([Key4; 2]),
    V6([Key6; 2]),
}

impl BothKeys {
    /// Forward and reply key; `None` if the endpoints are of different families.
    /// As by way of a [`FlowKey`], but without its bytes in memory, which were
    /// written in pieces and could not be read back whole at once.
    #[inline]
    pub(crate) const fn of(binding: &Binding) -> Option<Self> {
        use SocketAddr::{V4, V6};
        let proto = binding.proto;
        match (&binding.client, &binding.vip, &binding.server, &binding.local) {
            (V4(client), V4(vip), V4(server), V4(local)) => {
                Some(Self::V4([key4(proto, client, vip), key4(proto, server, local)]))
            }
            (V6(client), V6(vip), V6(server), V6(local)) => {
                Some(Self::V6([key6(proto, client, vip), key6(proto, server, local)]))
            }
            _ => None,
        }
    }
}

#[inline]
const fn key4(proto: Transport, src: &SocketAddrV4, dst: &SocketAddrV4) -> Key4 {
    let addresses = addresses_v4(*src.ip(), *dst.ip());
    Key { addresses, ports: ports(src.port(), dst.port()), proto }
}

#[inline]
const fn key6(proto: Transport, src: &SocketAddrV6, dst: &SocketAddrV6) -> Key6 {
    let addresses = addresses_v6(*src.ip(), *dst.ip());
    Key { addresses, ports: ports(src.port(), dst.port()), proto }
}

impl From<&FlowKey> for AnyKey {
    #[inline]
    fn from(key: &FlowKey) -> Self {
        match key {
            FlowKey::V4(flow) => Self::V4(flow.into()),
            FlowKey::V6(flow) => Self::V6(flow.into()),
        }
    }
}

impl Family for Key4 {
    const ID_BIT: u32 = 0;
    const STREAM: u32 = 4;
    const WHOLE: bool = true;
    const HEADER_SUM: bool = true;

    fn ips(&self) -> (IpAddr, IpAddr) {
        let [word] = self.addresses.map(u64::from_be);
        (Ipv4Addr::from_bits((word >> 32) as u32).into(), Ipv4Addr::from_bits(word as u32).into())
    }

    #[inline]
    fn flow(&self) -> FlowKey {
        let ([word], ports) = (self.addresses.map(u64::from_be), u32::from_be(self.ports));
        FlowKey::V4(FlowV4 {
            src: Ipv4Addr::from_bits((word >> 32) as u32),
            dst: Ipv4Addr::from_bits(word as u32),
            sport: (ports >> 16) as u16,
            dport: ports as u16,
            proto: self.proto,
        })
    }

    #[inline]
    fn rewrite(&self, deltas: Deltas, side: Side) -> Rewrite {
        let [addresses] = self.addresses;
        Rewrite::V4(Rewrite4 {
            addresses: addresses.to_ne_bytes(),
            ports: self.ports.to_ne_bytes(),
            net_delta: u16::from_be(deltas.net),
            transport_delta: u16::from_be(deltas.transport),
            side,
            port_side: Some(side),
        })
    }
}

impl Family for Key6 {
    const ID_BIT: u32 = 1 << 31;
    const STREAM: u32 = 6;
    const WHOLE: bool = false;
    const HEADER_SUM: bool = false;

    fn ips(&self) -> (IpAddr, IpAddr) {
        let [a, b, c, d] = self.addresses.map(u64::from_be);
        let ip = |high: u64, low: u64| {
            IpAddr::V6(Ipv6Addr::from_bits(u128::from(high) << 64 | u128::from(low)))
        };
        (ip(a, b), ip(c, d))
    }

    #[inline]
    fn flow(&self) -> FlowKey {
        let ([a, b, c, d], ports) = (self.addresses.map(u64::from_be), u32::from_be(self.ports));
        FlowKey::V6(FlowV6 {
            src: Ipv6Addr::from_bits(u128::from(a) << 64 | u128::from(b)),
            dst: Ipv6Addr::from_bits(u128::from(c) << 64 | u128::from(d)),
            sport: (ports >> 16) as u16,
            dport: ports as u16,
            proto: self.proto,
        })
    }

    #[inline]
    fn rewrite(&self, deltas: Deltas, side: Side) -> Rewrite {
        let mut addresses = [0; 32];
        for (bytes, word) in addresses.chunks_exact_mut(8).zip(self.addresses) {
            bytes.copy_from_slice(&word.to_ne_bytes());
        }
        Rewrite::V6(Rewrite6 {
            addresses,
            ports: self.ports.to_ne_bytes(),
            transport_delta: u16::from_be(deltas.transport),
            side,
            port_side: Some(side),
        })
    }
}

/// The pieces from which rewrites are put together.
pub trait Halves: Sized {
    /// Source and destination swapped.
    fn swapped(&self) -> Self;
    /// What `side` names, and zero otherwise.
    fn only(&self, side: Side) -> Self;
}

/// The ports that `side` names.
const fn only_ports(ports: u32, side: Side) -> u32 {
    match side {
        Side::Source => ports & 0xffff_0000_u32.to_be(),
        Side::Destination => ports & 0x0000_ffff_u32.to_be(),
        Side::Both => ports,
    }
}

impl Halves for Key4 {
    #[inline]
    fn swapped(&self) -> Self {
        let [word] = self.addresses;
        Self {
            addresses: [word.rotate_left(32)],
            ports: self.ports.rotate_left(16),
            proto: self.proto,
        }
    }

    #[inline]
    fn only(&self, side: Side) -> Self {
        let [word] = self.addresses;
        let word = match side {
            Side::Source => word & (u64::MAX << 32).to_be(),
            Side::Destination => word & (u64::MAX >> 32).to_be(),
            Side::Both => word,
        };
        Self { addresses: [word], ports: only_ports(self.ports, side), proto: self.proto }
    }
}

impl Halves for Key6 {
    #[inline]
    fn swapped(&self) -> Self {
        let [a, b, c, d] = self.addresses;
        Self { addresses: [c, d, a, b], ports: self.ports.rotate_left(16), proto: self.proto }
    }

    #[inline]
    fn only(&self, side: Side) -> Self {
        let [a, b, c, d] = self.addresses;
        let addresses = match side {
            Side::Source => [a, b, 0, 0],
            Side::Destination => [0, 0, c, d],
            Side::Both => [a, b, c, d],
        };
        Self { addresses, ports: only_ports(self.ports, side), proto: self.proto }
    }
}
