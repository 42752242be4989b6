//! SipHash-1-3 over a few words: the keyed hash behind Maglev and the pools
//! (Aumasson and Bernstein, "SipHash: a fast short-input PRF", 2012).
use std::net::IpAddr;

use wire::FlowKey;

/// A 128-bit key, as two little-endian words.
pub(crate) type Key = [u64; 2];

/// The hash of the bytes of `words` in little-endian order.
pub(crate) fn hash(key: Key, words: &[u64]) -> u64 {
    rounds::<1, 3>(key, words, (words.len() as u64 & 0x1f) << 59)
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

/// SipHash-c-d over whole words and the last word, which holds the remaining
/// bytes and the length in its top byte.
fn rounds<const C: usize, const D: usize>(key: Key, words: &[u64], last: u64) -> u64 {
    let mut v = [
        key[0] ^ 0x736f_6d65_7073_6575,
        key[1] ^ 0x646f_7261_6e64_6f6d,
        key[0] ^ 0x6c79_6765_6e65_7261,
        key[1] ^ 0x7465_6462_7974_6573,
    ];
    for word in words.iter().copied().chain([last]) {
        v[3] ^= word;
        (0..C).for_each(|_| round(&mut v));
        v[0] ^= word;
    }
    v[2] ^= 0xff;
    (0..D).for_each(|_| round(&mut v));
    v[0] ^ v[1] ^ v[2] ^ v[3]
}

fn round(v: &mut [u64; 4]) {
    let [mut a, mut b, mut c, mut d] = *v;
    a = a.wrapping_add(b);
    b = b.rotate_left(13) ^ a;
    a = a.rotate_left(32);
    c = c.wrapping_add(d);
    d = d.rotate_left(16) ^ c;
    a = a.wrapping_add(d);
    d = d.rotate_left(21) ^ a;
    c = c.wrapping_add(b);
    b = b.rotate_left(17) ^ c;
    c = c.rotate_left(32);
    *v = [a, b, c, d];
}

#[cfg(test)]
mod tests {
    use std::hash::{DefaultHasher, Hasher};

    use proptest::prelude::*;

    use super::*;

    /// The example of appendix A of the SipHash paper: key 00..0f, input 00..0e.
    #[test]
    fn the_papers_example_comes_out() {
        let key = [0x0706_0504_0302_0100, 0x0f0e_0d0c_0b0a_0908];
        let last = 0x0f0e_0d0c_0b0a_0908;
        assert_eq!(rounds::<2, 4>(key, &[0x0706_0504_0302_0100], last), 0xa129_ca61_49be_45e5);
    }

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
