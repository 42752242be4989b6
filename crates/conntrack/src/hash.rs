//! The keyed hashes: strongly universal, so that without knowing
//! the seed one can't choose 5-tuples that collide more often than random ones.
//!
//! MULTILINEAR of Lemire and Kaser ("Strongly universal string hashing is
//! fast", The Computer Journal 2014) over 64-bit words with 128-bit keys: the
//! upper half of the sum of keys times words modulo 2^128 is 64 strongly
//! universal bits, for two multiplications a word.
use crate::bucket::Sought;
use crate::key::{Family, Key};
use crate::seed::KeyStream;

/// Chooses the buckets of a key by what its slot holds.
#[derive(Clone, Debug)]
pub(crate) struct BucketHash {
    start: u128,
    addresses: u128,
    rest: u128,
}

/// Makes one word of the addresses.
#[derive(Clone, Debug)]
pub(crate) struct Digest<const K: usize> {
    start: u128,
    addresses: [u128; K],
}

fn draw(stream: &mut KeyStream) -> u128 {
    let mut word = || u128::from(stream.next().unwrap_or_default());
    word() << 64 | word()
}

impl BucketHash {
    pub(crate) fn new(stream: &mut KeyStream) -> Self {
        Self { start: draw(stream), addresses: draw(stream), rest: draw(stream) }
    }

    /// 64 bits, any two keys' independent.
    #[inline]
    pub(crate) fn hash(&self, sought: Sought) -> u64 {
        let sum = self
            .start
            .wrapping_add(self.addresses.wrapping_mul(u128::from(sought.addresses)))
            .wrapping_add(self.rest.wrapping_mul(u128::from(sought.rest)));
        mix((sum >> 64) as u64)
    }
}

impl<const K: usize> Digest<K>
where
    Key<K>: Family,
{
    pub(crate) fn new(stream: &mut KeyStream) -> Self {
        Self { start: draw(stream), addresses: std::array::from_fn(|_| draw(stream)) }
    }

    /// What a slot with `key` holds. IPv4 addresses are one word already.
    #[inline]
    pub(crate) fn sought(&self, key: &Key<K>) -> Sought {
        let addresses = match key.addresses.as_slice() {
            [whole] => *whole,
            _ => self.digest(&key.addresses),
        };
        Sought::new(addresses, key.ports, key.proto)
    }

    #[inline]
    fn digest(&self, addresses: &[u64; K]) -> u64 {
        let products = self.addresses.iter().zip(addresses);
        let sum = products.fold(self.start, |sum, (key, word)| {
            sum.wrapping_add(key.wrapping_mul(u128::from(*word)))
        });
        (sum >> 64) as u64
    }
}

/// A bijection. A multilinear hash keeps some order of its input: consecutive
/// ports give evenly spaced hashes. This destroys that order and leaves the
/// independence as it is. The upper bits of both halves are good.
#[inline]
const fn mix(x: u64) -> u64 {
    (x ^ x >> 32).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}
