//! Keys in the order of a number.
use std::collections::BTreeSet;

use crate::Key;

/// Keys by a number that is not negative, the smallest first; ties by key, so
/// that every run is the same. Its owner remembers each key's number.
#[derive(Clone, Debug, Default)]
pub(crate) struct Order(BTreeSet<(u64, Key)>);

impl Order {
    pub(crate) fn insert(&mut self, value: f64, key: Key) {
        self.0.insert((bits(value), key));
    }

    /// `value` must be the one that `key` was inserted with.
    pub(crate) fn remove(&mut self, value: f64, key: Key) {
        self.0.remove(&(bits(value), key));
    }

    pub(crate) fn first(&self) -> Option<(f64, Key)> {
        self.0.first().map(|&(bits, key)| (f64::from_bits(bits), key))
    }

    pub(crate) fn last(&self) -> Option<(f64, Key)> {
        self.0.last().map(|&(bits, key)| (f64::from_bits(bits), key))
    }

    /// How many keys have a larger number than `value`. The count visits all keys.
    pub(crate) fn above(&self, value: f64) -> usize {
        self.0.iter().rev().take_while(|(other, _)| *other > bits(value)).count()
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    pub(crate) fn clear(&mut self) {
        self.0.clear();
    }
}

/// Of numbers that are not negative, the larger has the larger bits.
fn bits(value: f64) -> u64 {
    if value > 0.0 { value.to_bits() } else { 0 }
}
