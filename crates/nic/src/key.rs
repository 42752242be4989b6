//! What the match tables are keyed by: masked 5-tuples.

/// The flow types that the cards' filters tell apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum FlowType {
    /// A whole TCP segment.
    Tcp = 0,
    /// A whole UDP datagram.
    Udp = 1,
    /// A whole datagram of another protocol, or a rule without a transport item.
    Other = 2,
}

/// How many flow types there are, per family.
pub(crate) const FLOW_TYPES: usize = 3;

/// An IPv4 5-tuple, packed for hashing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct KeyV4 {
    /// Source and destination address.
    pub(crate) addresses: u64,
    /// As [`rest`] packs it.
    pub(crate) rest: u64,
}

/// An IPv6 5-tuple.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct KeyV6 {
    /// Source address.
    pub(crate) src: u128,
    /// Destination address.
    pub(crate) dst: u128,
    /// As [`rest`] packs it.
    pub(crate) rest: u64,
}

/// Ports and protocol in one word.
pub(crate) const fn rest(sport: u16, dport: u16, proto: u8) -> u64 {
    (sport as u64) << 24 | (dport as u64) << 8 | proto as u64
}

/// The source and destination port in `rest`, one after the other.
pub(crate) const fn ports(rest: u64) -> u32 {
    (rest >> 8) as u32
}

/// What a hash table can be keyed by.
pub(crate) trait TableKey: Copy + Eq + Default {
    /// A hash with good high bits.
    fn hash(self) -> u64;
    /// The bits of the key that `mask` selects.
    fn masked(self, mask: Self) -> Self;
}

/// An odd number with well spread bits (2^64 divided by the golden ratio).
const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;

const fn mix(a: u64, b: u64) -> u64 {
    let product = (a ^ SPREAD) as u128 * (b ^ 0xd6e8_feb8_6659_fd93) as u128;
    (product as u64) ^ (product >> 64) as u64
}

impl TableKey for KeyV4 {
    #[inline]
    fn hash(self) -> u64 {
        mix(self.addresses, self.rest).wrapping_mul(SPREAD)
    }

    #[inline]
    fn masked(self, mask: Self) -> Self {
        Self { addresses: self.addresses & mask.addresses, rest: self.rest & mask.rest }
    }
}

impl TableKey for KeyV6 {
    #[inline]
    fn hash(self) -> u64 {
        let src = mix(self.src as u64, (self.src >> 64) as u64);
        let dst = mix(self.dst as u64, (self.dst >> 64) as u64);
        mix(src.rotate_left(17) ^ self.rest, dst).wrapping_mul(SPREAD)
    }

    #[inline]
    fn masked(self, mask: Self) -> Self {
        Self { src: self.src & mask.src, dst: self.dst & mask.dst, rest: self.rest & mask.rest }
    }
}

/// A key of either family.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Key {
    /// IPv4.
    V4(KeyV4),
    /// IPv6.
    V6(KeyV6),
}
