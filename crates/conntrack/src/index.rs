//! The cuckoo index: from keys to records, each key in one of two buckets.
//!
//! Readers never lock. An entry is one word, and a move writes the copy before
//! it clears the original, so a key that is in the table is in at least one of
//! its buckets at any time; only a reader that looked into the one before the
//! copy came and into the other after the original went can miss it, and that
//! reader sees the count of moves changed and looks again (LB-NIC section 3.2;
//! here the count is looked at only after a miss, so hits don't pay for it).
//!
//! Why that is enough: the reader that misses has read the cleared slot, or
//! something written into it later, with acquire order; the clearing came
//! after the count, so its second look at the counter sees the count. Its
//! first look can't have: then it would have seen the copy, too.
use crate::bucket::{Bucket, Entry, Reference, SLOTS};
use crate::locks::{Held, Locks, Moves};
use crate::memory::{OutOfMemory, Slab};
use crate::sync::{AtomicU64, Ordering};

/// The index of one family, for the keys of both directions.
#[derive(Debug)]
pub(crate) struct Index {
    buckets: Slab<Bucket>,
    locks: Locks,
    moves: Moves,
    /// How many moves there were.
    pub(crate) moved: AtomicU64,
    /// How many lookups had to look again.
    pub(crate) retried: AtomicU64,
}

/// Where a key may be.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Probe {
    first: u32,
    second: u32,
    /// The hash bits kept in the slot.
    pub(crate) tag: u32,
}

impl Probe {
    /// The number of the bucket where the key is put if there is room.
    #[inline]
    pub(crate) const fn first(self) -> usize {
        self.first as usize
    }

    /// The number of the other; may be the same.
    #[inline]
    pub(crate) const fn second(self) -> usize {
        self.second as usize
    }
}

/// Where a search for a key begins.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Start {
    pub(crate) first: u32,
    pub(crate) tag: u32,
}

/// A slot's place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) bucket: usize,
    pub(crate) slot: usize,
}

/// `wide`, 32 bits, scaled to `0..n`.
const fn scale(wide: u32, n: usize) -> usize {
    ((wide as u64 * n as u64) >> 32) as usize
}

impl Index {
    /// An empty index of `buckets` buckets, at least one and at most 2^32 - 1.
    pub(crate) fn new(buckets: usize) -> Result<Self, OutOfMemory> {
        Ok(Self {
            buckets: Slab::new(buckets)?,
            locks: Locks::new(buckets),
            moves: Moves::new(buckets),
            moved: AtomicU64::new(0),
            retried: AtomicU64::new(0),
        })
    }

    pub(crate) fn bytes(&self) -> usize {
        self.buckets.bytes() + self.locks.bytes() + self.moves.bytes()
    }

    /// The two buckets and the tag of a key with this hash. Bucket and tag
    /// come from different halves of the hash.
    #[inline]
    pub(crate) fn probe(&self, hash: u64) -> Probe {
        let Start { first, tag } = self.start(hash);
        Probe { first, second: self.other(first as usize, tag) as u32, tag }
    }

    /// The first bucket and the tag of a key with this hash.
    #[inline]
    pub(crate) fn start(&self, hash: u64) -> Start {
        let first = scale((hash >> 32) as u32, self.buckets.len()) as u32;
        Start { first, tag: hash as u32 & (u32::MAX >> 1) }
    }

    /// The other bucket of an entry with `tag` in `bucket`; an involution. The
    /// entry alone tells it, so that moves needn't read records.
    #[inline]
    pub(crate) fn other(&self, bucket: usize, tag: u32) -> usize {
        let (pair, n) = (self.pair(tag), self.buckets.len());
        // Half of all pairs wrap around: a branch would be mispredicted as often.
        let (difference, wraps) = pair.overflowing_sub(bucket);
        difference.wrapping_add(n & usize::from(wraps).wrapping_neg())
    }

    /// The sum of an entry's two buckets, modulo their number: the same in both.
    #[inline]
    fn pair(&self, tag: u32) -> usize {
        scale(tag << 1, self.buckets.len())
    }

    /// A bucket; the number comes from [`Self::probe`] or [`Self::other`], which
    /// stay below the number of buckets.
    #[inline]
    pub(crate) fn bucket(&self, number: usize) -> &Bucket {
        &self.buckets[number]
    }

    /// Both buckets of a probe.
    #[inline]
    fn both(&self, probe: Probe) -> (&Bucket, &Bucket) {
        (self.bucket(probe.first()), self.bucket(probe.second()))
    }

    #[inline]
    pub(crate) fn prefetch(&self, bucket: usize) {
        self.buckets.prefetch(bucket);
    }

    /// The entry of `probe` for whose reference `is_it` holds.
    #[inline]
    pub(crate) fn find(
        &self,
        probe: Probe,
        is_it: impl Fn(Reference) -> bool,
    ) -> Option<Reference> {
        if let Some(reference) = self.guess(probe) {
            if is_it(reference) {
                return Some(reference);
            }
        }
        self.find_surely(probe, is_it)
    }

    /// An entry with the tag of `probe`: most likely the one sought. Looks into
    /// both buckets without a branch between them: which of the two has a key
    /// can't be predicted.
    #[inline]
    pub(crate) fn guess(&self, probe: Probe) -> Option<Reference> {
        let (first, second) = self.both(probe);
        let mask = first.tag_mask(second, probe.tag);
        let slot = mask.trailing_zeros() as usize;
        let bucket = if slot < SLOTS { first } else { second };
        if mask == 0 { None } else { bucket.reference(slot, probe.tag) }
    }

    /// As [`Self::find`], and `None` means that at one moment during the call
    /// the key was not there.
    #[cold]
    pub(crate) fn find_surely(
        &self,
        probe: Probe,
        is_it: impl Fn(Reference) -> bool,
    ) -> Option<Reference> {
        let pair = self.pair(probe.tag);
        let mut before = self.moves.seen(pair);
        loop {
            let found = self.scan(probe, &is_it);
            if found.is_some() {
                return found;
            }
            let after = self.moves.seen(pair);
            if before == after {
                return None;
            }
            self.retried.fetch_add(1, Ordering::Relaxed);
            before = after;
        }
    }

    /// Looks into both buckets once. Under their locks that is exact.
    pub(crate) fn scan(
        &self,
        probe: Probe,
        is_it: impl Fn(Reference) -> bool,
    ) -> Option<Reference> {
        let buckets = [self.bucket(probe.first()), self.bucket(probe.second())];
        buckets.into_iter().flat_map(|bucket| bucket.tagged(probe.tag)).find(|&found| is_it(found))
    }

    /// As [`Self::scan`], and only under the locks of both buckets.
    pub(crate) fn find_locked(
        &self,
        probe: Probe,
        is_it: impl Fn(Reference) -> bool,
    ) -> Option<Reference> {
        let (first, second) = self.both(probe);
        if first.tag_mask(second, probe.tag) == 0 { None } else { self.scan(probe, is_it) }
    }

    /// Locks the buckets of two keys.
    pub(crate) fn lock(&self, probes: &[Probe; 2]) -> Held<'_> {
        let [a, b] = probes;
        self.locks.lock([a.first(), a.second(), b.first(), b.second()])
    }

    /// How many insertions were counted by [`Held::count`].
    pub(crate) fn inserted(&self) -> u64 {
        self.locks.count()
    }

    /// An empty slot for a key, other than `taken`; the first bucket's if it has
    /// one.
    pub(crate) fn vacancy(&self, probe: Probe, taken: Option<Place>) -> Option<Place> {
        let (first, second) = self.both(probe);
        let mut mask = first.empty_mask(second);
        if let Some(taken) = taken {
            let bit = |bucket, shift| u32::from(taken.bucket == bucket) << (taken.slot + shift);
            mask &= !(bit(probe.first(), 0) | bit(probe.second(), SLOTS));
        }
        let slot = mask.trailing_zeros() as usize;
        let bucket = if slot < SLOTS { probe.first() } else { probe.second() };
        (mask != 0).then_some(Place { bucket, slot: slot % SLOTS })
    }

    /// An empty slot in a bucket, other than `taken`.
    pub(crate) fn vacancy_in(&self, bucket: usize, taken: Option<Place>) -> Option<Place> {
        let other = taken.filter(|taken| taken.bucket == bucket).map_or(0, |taken| 1 << taken.slot);
        let mask = self.bucket(bucket).own_empty_mask() & !other;
        (mask != 0).then(|| Place { bucket, slot: mask.trailing_zeros() as usize })
    }

    /// Writes an entry into an empty slot; only under the lock of its bucket.
    pub(crate) fn put(&self, place: Place, probe: Probe, reference: Reference) {
        self.bucket(place.bucket).store(place.slot, Entry::new(probe.tag, reference));
    }

    /// Removes an entry; only under the locks of both its buckets.
    pub(crate) fn erase(&self, probe: Probe, reference: Reference) {
        let entry = Entry::new(probe.tag, reference);
        for number in [probe.first(), probe.second()] {
            let bucket = self.bucket(number);
            if let Some(slot) = bucket.entries().position(|found| found == entry) {
                bucket.store(slot, Entry::EMPTY);
                return;
            }
        }
    }

    /// Moves `entry` from `from` to its other bucket's slot `to`, if it is
    /// still there and `to` still empty; whether it did.
    pub(crate) fn shift(&self, entry: Entry, from: Place, to: Place) -> bool {
        let _held = self.locks.lock([from.bucket, to.bucket, from.bucket, to.bucket]);
        let (source, target) = (self.bucket(from.bucket), self.bucket(to.bucket));
        if source.load(from.slot) != entry || !target.load(to.slot).is_empty() {
            return false;
        }
        target.store(to.slot, entry);
        self.moves.count(self.pair(entry.tag()));
        source.store(from.slot, Entry::EMPTY);
        self.moved.fetch_add(1, Ordering::Relaxed);
        true
    }
}
