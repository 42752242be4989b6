//! An exact-match hash table of fixed size: open addressing, linear probing,
//! at most half full.
use crate::key::TableKey;

/// Marks a slot without a key.
const EMPTY: u32 = u32::MAX;

#[derive(Clone, Copy)]
struct Slot<K> {
    key: K,
    value: u32,
}

/// Maps keys to numbers below `u32::MAX`.
pub(crate) struct HashTable<K> {
    slots: Box<[Slot<K>]>,
    shift: u32,
    len: usize,
    capacity: usize,
}

impl<K: TableKey> HashTable<K> {
    /// A table for up to `capacity` keys.
    pub(crate) fn new(capacity: usize) -> Self {
        let size = (capacity.max(1) * 2).next_power_of_two();
        let slot = Slot { key: K::default(), value: EMPTY };
        let shift = u64::BITS - size.trailing_zeros();
        Self { slots: vec![slot; size].into(), shift, len: 0, capacity }
    }

    #[inline]
    fn home(&self, key: K) -> usize {
        (key.hash() >> self.shift) as usize
    }

    #[inline]
    fn after(&self, index: usize) -> usize {
        (index + 1) & (self.slots.len() - 1)
    }

    /// Where `key` is, or the empty slot where it would go.
    #[inline]
    fn seek(&self, key: K) -> (usize, Option<u32>) {
        let mut index = self.home(key);
        while let Some(slot) = self.slots.get(index) {
            if slot.value == EMPTY {
                break;
            }
            if slot.key == key {
                return (index, Some(slot.value));
            }
            index = self.after(index);
        }
        (index, None)
    }

    /// The value of `key`.
    #[inline]
    pub(crate) fn get(&self, key: K) -> Option<u32> {
        self.seek(key).1
    }

    /// Maps `key` to `value`; `false` if the table is full.
    pub(crate) fn insert(&mut self, key: K, value: u32) -> bool {
        let (index, old) = self.seek(key);
        if old.is_none() && self.len >= self.capacity {
            return false;
        }
        let Some(slot) = self.slots.get_mut(index) else { return false };
        *slot = Slot { key, value };
        self.len += usize::from(old.is_none());
        true
    }

    /// Takes `key` out; the keys behind it in the probe sequence move up.
    pub(crate) fn remove(&mut self, key: K) -> Option<u32> {
        let (mut hole, value) = self.seek(key);
        value?;
        self.len -= 1;
        let last = self.slots.len() - 1;
        let mut next = hole;
        loop {
            next = self.after(next);
            let Some(slot) = self.slots.get(next).copied() else { break };
            if slot.value == EMPTY {
                break;
            }
            let distance = next.wrapping_sub(self.home(slot.key)) & last;
            if distance >= (next.wrapping_sub(hole) & last) {
                self.put(hole, slot);
                hole = next;
            }
        }
        self.put(hole, Slot { key: K::default(), value: EMPTY });
        value
    }

    fn put(&mut self, index: usize, slot: Slot<K>) {
        if let Some(place) = self.slots.get_mut(index) {
            *place = slot;
        }
    }

    /// Takes all keys out.
    pub(crate) fn clear(&mut self) {
        self.slots.fill(Slot { key: K::default(), value: EMPTY });
        self.len = 0;
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use proptest::prelude::*;

    use super::*;

    /// A key that collides on purpose.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
    struct Clash(u64);

    impl TableKey for Clash {
        fn hash(self) -> u64 {
            (self.0 % 5) << 61
        }

        fn masked(self, mask: Self) -> Self {
            Self(self.0 & mask.0)
        }
    }

    proptest! {
        #[test]
        fn agrees_with_a_hash_map(steps in prop::collection::vec((any::<bool>(), 0_u64..40, 0_u32..100), 0..400)) {
            let mut table = HashTable::new(16);
            let mut model = HashMap::new();
            for (insert, key, value) in steps {
                if insert {
                    let fits = model.contains_key(&Clash(key)) || model.len() < 16;
                    prop_assert_eq!(table.insert(Clash(key), value), fits);
                    if fits {
                        model.insert(Clash(key), value);
                    }
                } else {
                    prop_assert_eq!(table.remove(Clash(key)), model.remove(&Clash(key)));
                }
                for key in (0..40).map(Clash) {
                    prop_assert_eq!(table.get(key), model.get(&key).copied());
                }
            }
        }
    }
}
