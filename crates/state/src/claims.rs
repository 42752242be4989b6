//! Which packets from backends are for ends of our own, which no connection table has.
use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use wire::FlowKey;

/// Slots of a bucket: a cache line.
const SLOTS: usize = 8;
/// Buckets: with half their slots in use no two of them are full.
const BUCKETS: usize = 1 << 14;

/// A set of 5-tuples with one writer and any number of readers, none of which waits. It
/// keeps a keyed hash of 64 bits of each, so that two that are taken for each other are
/// not met with.
pub struct Claims {
    buckets: Box<[[AtomicU64; SLOTS]]>,
    count: AtomicUsize,
    hash: RandomState,
}

impl std::fmt::Debug for Claims {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Claims({})", self.len())
    }
}

impl Default for Claims {
    fn default() -> Self {
        let buckets = std::iter::repeat_with(Default::default).take(BUCKETS).collect();
        Self { buckets, count: AtomicUsize::new(0), hash: RandomState::new() }
    }
}

impl Claims {
    /// Whether the packets with `key` are claimed.
    #[inline]
    #[must_use]
    pub fn has(&self, key: &FlowKey) -> bool {
        if self.count.load(Ordering::Acquire) == 0 {
            return false;
        }
        let tag = self.tag(key);
        self.slots(tag).any(|slot| slot.load(Ordering::Acquire) == tag)
    }

    /// Claims the packets with `key`; for the one writer. `false`: they are claimed, or
    /// there is no room.
    #[must_use]
    pub fn insert(&self, key: &FlowKey) -> bool {
        let tag = self.tag(key);
        if self.has(key) {
            return false;
        }
        // The emptier of the two buckets, so that both are full only when nearly all are.
        let free = |slots: &&[AtomicU64; SLOTS]| slots.iter().filter(|slot| is_free(slot)).count();
        let emptier = self.buckets(tag).max_by_key(free);
        let Some(free) = emptier.into_iter().flatten().find(|slot| is_free(slot)) else {
            return false;
        };
        free.store(tag, Ordering::Release);
        self.count.fetch_add(1, Ordering::Release);
        true
    }

    /// Gives a claim up; for the one writer.
    pub fn remove(&self, key: &FlowKey) {
        let tag = self.tag(key);
        if let Some(slot) = self.slots(tag).find(|slot| slot.load(Ordering::Relaxed) == tag) {
            slot.store(0, Ordering::Release);
            self.count.fetch_sub(1, Ordering::Release);
        }
    }

    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.count.load(Ordering::Relaxed)
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// 0 stands for a free slot.
    fn tag(&self, key: &FlowKey) -> u64 {
        self.hash.hash_one(key).max(1)
    }

    /// The buckets in which a tag may be.
    fn buckets(&self, tag: u64) -> impl Iterator<Item = &[AtomicU64; SLOTS]> {
        let places = [tag as usize % BUCKETS, (tag >> 32) as usize % BUCKETS];
        places.into_iter().filter_map(|at| self.buckets.get(at))
    }

    /// Their slots.
    fn slots(&self, tag: u64) -> impl Iterator<Item = &AtomicU64> {
        self.buckets(tag).flatten()
    }
}

fn is_free(slot: &AtomicU64) -> bool {
    slot.load(Ordering::Relaxed) == 0
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use flow::Transport;
    use proptest::prelude::*;

    use super::*;

    fn key(port: u16) -> FlowKey {
        let [from, to] = [([10, 0, 0, 1], 80), ([10, 0, 0, 2], port)];
        FlowKey::new(Transport::Tcp, from.into(), to.into()).unwrap()
    }

    proptest! {
        #[test]
        fn it_is_a_set(steps in prop::collection::vec((any::<bool>(), 0_u16..40), 0..400)) {
            let (claims, mut model) = (Claims::default(), HashSet::new());
            for (inserts, port) in steps {
                if inserts {
                    prop_assert_eq!(claims.insert(&key(port)), model.insert(port));
                } else {
                    claims.remove(&key(port));
                    model.remove(&port);
                }
                prop_assert_eq!(claims.len(), model.len());
                for port in 0..40 {
                    prop_assert_eq!(claims.has(&key(port)), model.contains(&port));
                }
            }
        }
    }

    #[test]
    fn half_of_the_slots_find_room() {
        let claims = Claims::default();
        assert!((0..u16::MAX).all(|port| claims.insert(&key(port))));
    }
}
