//! The keyed hash: strongly universal, so that nobody who doesn't know the
//! seed can choose 5-tuples that collide more often than random ones.
//!
//! MULTILINEAR-HM of Lemire and Kaser ("Strongly universal string hashing is
//! fast", The Computer Journal 2014) with 64-bit keys over the 32-bit words of
//! the 5-tuple gives 32 strongly universal bits; two evaluations with
//! independent keys give 64. A multilinear hash keeps some order of its input
//! (consecutive ports give evenly spaced hashes); a bijective mixer behind it
//! destroys that order and leaves pairwise independence as it is.
use wire::Transport;

use crate::key::{Family, Key};
use crate::seed::KeyStream;

/// The hash keys of one family.
#[derive(Clone, Debug)]
pub(crate) struct KeyedHash<const K: usize> {
    lanes: [Lane<K>; 2],
}

#[derive(Clone, Debug)]
struct Lane<const K: usize> {
    start: u64,
    addresses: [(u64, u64); K],
    ports: u64,
    proto: u64,
}

impl<const K: usize> KeyedHash<K>
where
    Key<K>: Family,
{
    /// The hash that `seed` chooses.
    pub(crate) fn new(seed: &[u8; 32]) -> Self {
        let mut stream = KeyStream::new(seed, [<Key<K> as Family>::STREAM, 0, 0], 0);
        Self { lanes: std::array::from_fn(|_| Lane::draw(&mut stream)) }
    }

    /// 64 bits, each pair of keys independent.
    #[inline]
    pub(crate) fn hash(&self, key: &Key<K>) -> u64 {
        let [high, low] = &self.lanes;
        mix(high.sum(key) >> 32 << 32 | low.sum(key) >> 32)
    }
}

impl<const K: usize> Lane<K> {
    fn draw(stream: &mut KeyStream) -> Self {
        let mut word = || stream.next().unwrap_or_default();
        Self {
            start: word(),
            addresses: std::array::from_fn(|_| (word(), word())),
            ports: word(),
            proto: word(),
        }
    }

    #[inline]
    fn sum(&self, key: &Key<K>) -> u64 {
        let mut sum = self.start;
        for (word, (a, b)) in key.addresses.iter().zip(&self.addresses) {
            let product =
                a.wrapping_add(word >> 32).wrapping_mul(b.wrapping_add(word & 0xffff_ffff));
            sum = sum.wrapping_add(product);
        }
        let ports = self.ports.wrapping_add(u64::from(key.ports));
        let proto = self.proto.wrapping_add(u64::from(Transport::number(key.proto)));
        sum.wrapping_add(ports.wrapping_mul(proto))
    }
}

/// A bijection of 64-bit words (the finalizer of splitmix64).
#[inline]
const fn mix(mut x: u64) -> u64 {
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}
