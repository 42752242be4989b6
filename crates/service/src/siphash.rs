//! SipHash-1-3 over a few words: the keyed hash behind Maglev and the pools
//! (Aumasson and Bernstein, "SipHash: a fast short-input PRF", 2012).
use std::hash::Hasher;
use std::net::IpAddr;

use siphasher::sip::SipHasher13;
use wire::FlowKey;

use crate::Key128;

/// A 128-bit key, as two little-endian words.
pub(crate) type Key = [u64; 2];

/// The keys of a process, which its service table has.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Keys {
    /// Of the choice of full NAT's endpoints.
    pub(crate) pool: Key,
    /// Of 5-tuples, for Maglev.
    pub(crate) flow: Key,
    /// Of clients' addresses, for Maglev.
    pub(crate) client: Key,
}

impl Keys {
    /// Those of a fleet with `fleet`, or the public ones, by which several load
    /// balancers agree without being told a key.
    pub(crate) fn new(pool: Key, fleet: Option<Key128>) -> Self {
        let mut keys = Self {
            pool,
            flow: [0x4d61_676c_6576_2066, 0x6c6f_7720_6b65_7931],
            client: [0x736f_7572_6365_2068, 0x6173_6820_6b65_7931],
        };
        if let Some(Key128(fleet)) = fleet {
            let bits = u128::from_le_bytes(fleet);
            let fleet = [bits as u64, (bits >> 64) as u64];
            for own in [&mut keys.flow, &mut keys.client] {
                *own = [hash(fleet, &[own[0], own[1], 0]), hash(fleet, &[own[0], own[1], 1])];
            }
        }
        keys
    }
}

/// The hash of the bytes of `words` in little-endian order.
pub(crate) fn hash(key: Key, words: &[u64]) -> u64 {
    let mut hasher = SipHasher13::new_with_keys(key[0], key[1]);
    words.iter().for_each(|word| hasher.write_u64(word.to_le()));
    hasher.finish()
}

/// The hash of a 5-tuple and one more word.
pub(crate) fn flow(key: Key, flow: &FlowKey, more: u64) -> u64 {
    match flow {
        FlowKey::V4(f) => {
            let addresses = (u64::from(f.src.to_bits()) << 32) | u64::from(f.dst.to_bits());
            hash(key, &[addresses, ports(f.sport, f.dport, f.proto.number()), more])
        }
        FlowKey::V6(f) => {
            let ([s0, s1], [d0, d1]) = (halves(f.src.to_bits()), halves(f.dst.to_bits()));
            hash(key, &[s0, s1, d0, d1, ports(f.sport, f.dport, f.proto.number()), more])
        }
    }
}

/// The hash of an address and one more word.
pub(crate) fn address(key: Key, address: IpAddr, more: u64) -> u64 {
    match address {
        IpAddr::V4(a) => hash(key, &[u64::from(a.to_bits()), more]),
        IpAddr::V6(a) => {
            let [high, low] = halves(a.to_bits());
            hash(key, &[high, low, more])
        }
    }
}

/// `hash` brought evenly into 0..`range`, without a division.
pub(crate) const fn below(hash: u64, range: u64) -> u64 {
    ((hash as u128 * range as u128) >> 64) as u64
}

const fn halves(bits: u128) -> [u64; 2] {
    [(bits >> 64) as u64, bits as u64]
}

fn ports(sport: u16, dport: u16, proto: u8) -> u64 {
    (u64::from(sport) << 32) | (u64::from(dport) << 16) | u64::from(proto)
}

#[cfg(test)]
mod tests {
    use std::hash::DefaultHasher;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// The standard library's hasher is SipHash-1-3 with key zero.
        #[test]
        fn the_standard_librarys_hash_is_the_same(words: Vec<u64>) {
            let mut oracle = DefaultHasher::new();
            words.iter().for_each(|word| oracle.write(&word.to_le_bytes()));
            prop_assert_eq!(hash([0, 0], &words), oracle.finish());
        }
    }
}
