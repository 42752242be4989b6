//! A hash map from endpoints to small values, built once and then only read.
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::net::IpAddr;

/// What is looked up: an address, a port (0 for any) and an IP protocol
/// number (0 where it doesn't matter).
#[derive(Clone, Copy, Debug)]
pub(crate) struct Endpoint {
    pub(crate) address: IpAddr,
    pub(crate) port: u16,
    pub(crate) proto: u8,
}

/// Values by endpoint, one map a family so that the keys are plain words.
#[derive(Clone, Debug)]
pub(crate) struct Index<V> {
    v4: HashMap<u64, V, BuildHasherDefault<WordHasher>>,
    v6: HashMap<(u128, u32), V, BuildHasherDefault<WordHasher>>,
}

impl<V> Default for Index<V> {
    fn default() -> Self {
        Self { v4: HashMap::default(), v6: HashMap::default() }
    }
}

impl<V: Copy> Index<V> {
    /// Puts `value` at `at`; gives back what was there.
    pub(crate) fn insert(&mut self, at: Endpoint, value: V) -> Option<V> {
        let low = at.low();
        match at.address {
            IpAddr::V4(a) => self.v4.insert((u64::from(a.to_bits()) << 32) | u64::from(low), value),
            IpAddr::V6(a) => self.v6.insert((a.to_bits(), low), value),
        }
    }

    /// The value at `at`.
    #[inline]
    pub(crate) fn get(&self, at: Endpoint) -> Option<V> {
        let low = at.low();
        match at.address {
            IpAddr::V4(a) => self.v4.get(&((u64::from(a.to_bits()) << 32) | u64::from(low))),
            IpAddr::V6(a) => self.v6.get(&(a.to_bits(), low)),
        }
        .copied()
    }
}

impl Endpoint {
    fn low(self) -> u32 {
        (u32::from(self.port) << 16) | u32::from(self.proto)
    }
}

/// Multiply and fold each word. What is in the map comes from the operator
/// and not from clients, so the hash needs no key.
#[derive(Default)]
struct WordHasher(u64);

impl Hasher for WordHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.write_u64(u64::from(*byte)));
    }

    fn write_u32(&mut self, word: u32) {
        self.write_u64(u64::from(word));
    }

    fn write_u64(&mut self, word: u64) {
        let product = u128::from(self.0 ^ word ^ 0x9e37_79b9_7f4a_7c15) * 0xd6e8_feb8_6659_fd93;
        self.0 = (product >> 64) as u64 ^ product as u64;
    }

    fn write_u128(&mut self, word: u128) {
        self.write_u64((word >> 64) as u64);
        self.write_u64(word as u64);
    }
}
