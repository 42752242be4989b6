//! The cuckoo index: from keys to records, each key in one of two buckets.
//!
//! Readers never lock. A move writes the copy before it clears the original,
//! so a key that is in the table is in at least one of its buckets at any
//! time; only a reader that looked into the one before the copy came and into
//! the other after the original went can miss it, and that reader sees that
//! something has moved there and looks again (LB-NIC section 3.2): [`Moves`].
//!
//! A bucket says whether any key whose first one it is may be in its second
//! (`Bucket::has_spilled`): most have none, and then the first is all there is to
//! look at.
//!
//! A key's whereabouts change only under the lock of its first bucket, and
//! what a bucket holds only under its own: an insertion into the first bucket
//! needs one lock, and everything else both.
use crate::bucket::{Bucket, Entry, Reference, SLOTS, Sought};
use crate::hash::BucketHash;
use crate::locks::{BucketGuards, Pair};
use crate::memory::{HashArray, OutOfMemory};
use crate::moves::Moves;
use crate::seed::KeyStream;
use crate::sync::{AtomicU64, Ordering};

/// The index of one family, for the keys of both directions.
#[derive(Debug)]
pub(crate) struct Index {
    buckets: HashArray<Bucket>,
    hash: BucketHash,
    moves: Moves,
    /// How many lookups had to look again.
    pub(crate) retried: AtomicU64,
}

/// A key and where it may be.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Probe {
    pub(crate) sought: Sought,
    first: u32,
    second: u32,
}

impl Probe {
    /// The number of the bucket where the key is put if there is room.
    #[inline]
    pub(crate) const fn first(&self) -> usize {
        self.first as usize
    }

    /// The number of the other; may be the same.
    #[inline]
    pub(crate) const fn second(&self) -> usize {
        self.second as usize
    }
}

/// A slot's place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) bucket: usize,
    pub(crate) slot: usize,
}

impl Index {
    /// An empty index of `buckets` buckets, at least one and at most 2^32 - 1.
    pub(crate) fn new(buckets: usize, stream: &mut KeyStream) -> Result<Self, OutOfMemory> {
        Ok(Self {
            buckets: HashArray::new(u32::try_from(buckets).unwrap_or(u32::MAX))?,
            hash: BucketHash::new(stream),
            moves: Moves::new(),
            retried: AtomicU64::new(0),
        })
    }

    pub(crate) fn bytes(&self) -> usize {
        self.buckets.bytes()
    }

    /// How many buckets there are.
    pub(crate) fn len(&self) -> u32 {
        self.buckets.len() as u32
    }

    /// The two buckets of a key, from the two halves of its hash.
    #[inline]
    pub(crate) fn probe(&self, sought: Sought) -> Probe {
        let hash = self.hash.hash(sought);
        let [first, second] = [(hash >> 32) as u32, hash as u32];
        Probe { sought, first: self.buckets.place(first), second: self.buckets.place(second) }
    }

    /// The first bucket of a key, on its way into the cache, and what says the
    /// second.
    #[inline]
    pub(crate) fn approach(&self, sought: Sought) -> (&Bucket, u32) {
        let hash = self.hash.hash(sought);
        let first = (hash >> 32) as u32;
        self.buckets.prefetch_at(first);
        (self.buckets.at(first), hash as u32)
    }

    /// Brings the second bucket closer, from what [`Self::approach`] said, if
    /// it has to be looked at.
    #[inline]
    pub(crate) fn approach_second(&self, first: &Bucket, wide: u32) {
        if first.has_spilled() {
            self.buckets.prefetch_at(wide);
        }
    }

    /// An entry in the second bucket, for a key that a look at the first has not
    /// found, and whether that is the answer; sure only if nothing moved since
    /// before that look.
    #[inline]
    pub(crate) fn beyond(
        &self,
        first: &Bucket,
        wide: u32,
        sought: Sought,
    ) -> (Option<Reference>, bool) {
        if !first.has_spilled() {
            return (None, first.lacks(sought));
        }
        let second = self.buckets.at(wide);
        match second.own(sought) {
            (reference, true) => (Some(reference), true),
            _ => (None, first.lacks(sought) && second.lacks(sought)),
        }
    }

    /// The other bucket of an entry in `bucket`. The entry alone tells it, so
    /// that moves needn't read records.
    pub(crate) fn other(&self, bucket: usize, entry: Entry) -> usize {
        let probe = self.probe(entry.sought());
        if probe.first() == bucket { probe.second() } else { probe.first() }
    }

    /// A bucket; the number comes from [`Self::probe`] or [`Self::other`], which
    /// stay below the number of buckets.
    #[inline]
    pub(crate) fn bucket(&self, number: usize) -> &Bucket {
        &self.buckets[number]
    }

    /// To be locked.
    #[inline]
    pub(crate) fn prefetch_write(&self, bucket: usize) {
        self.buckets.prefetch_write(bucket);
    }

    #[inline]
    pub(crate) fn prefetch(&self, bucket: usize) {
        self.buckets.prefetch(bucket);
    }

    /// What has moved, and when.
    #[inline]
    pub(crate) const fn moves(&self) -> &Moves {
        &self.moves
    }

    /// How many keys are in their second bucket: looks at all buckets.
    pub(crate) fn spilled(&self) -> u64 {
        self.buckets.iter().map(|bucket| u64::from(bucket.spilled())).sum()
    }

    /// Whether a lookup of `sought` that began when the clock of moves read
    /// `before` is to be believed: nothing has moved in either of its buckets.
    #[inline]
    pub(crate) fn is_sure(&self, sought: Sought, before: u64) -> bool {
        self.moves.none_since(before) || self.is_undisturbed(&self.probe(sought), before)
    }

    /// The same after [`Moves::none_since`] has said that something has moved
    /// somewhere.
    #[cold]
    #[inline(never)]
    pub(crate) fn is_undisturbed(&self, probe: &Probe, before: u64) -> bool {
        self.moves.none_in(probe.first(), before) && self.moves.none_in(probe.second(), before)
    }

    /// An entry that looks like `sought` in either bucket, and whether there being
    /// none is the answer, as far as nothing moved meanwhile.
    #[inline]
    pub(crate) fn guess(&self, sought: Sought) -> (Option<Reference>, bool) {
        let hash = self.hash.hash(sought);
        let (first, second) = (self.buckets.at((hash >> 32) as u32), self.buckets.at(hash as u32));
        let (reference, same, none) = first.either(second, sought);
        (same.then_some(reference), none)
    }

    /// The entry of `probe` for whose reference `is_it` holds; `None` means
    /// that at one moment during the call the key was not there.
    #[cold]
    pub(crate) fn find_surely(
        &self,
        probe: &Probe,
        is_it: impl Fn(Reference) -> bool,
    ) -> Option<Reference> {
        let mut before = self.moves.now();
        loop {
            let found = self.scan(probe, &is_it);
            let sure = self.moves.none_since(before) || self.is_undisturbed(probe, before);
            if found.is_some() || sure {
                return found;
            }
            self.retried.fetch_add(1, Ordering::Relaxed);
            before = self.moves.now();
        }
    }

    /// Looks into both buckets once.
    fn scan(&self, probe: &Probe, is_it: impl Fn(Reference) -> bool) -> Option<Reference> {
        let buckets = [self.bucket(probe.first()), self.bucket(probe.second())];
        let mut found = buckets.into_iter().flat_map(|bucket| bucket.matching(probe.sought));
        found.find(|&found| is_it(found))
    }

    /// As [`Self::find_surely`], only under the lock of the first bucket: then
    /// no other thread writes a slot that has the key.
    #[inline]
    pub(crate) fn find_locked(
        &self,
        probe: &Probe,
        is_it: impl Fn(Reference) -> bool,
    ) -> Option<Reference> {
        let (first, second) = (self.bucket(probe.first()), self.bucket(probe.second()));
        if first.lacks(probe.sought) && (!first.has_spilled() || second.lacks(probe.sought)) {
            return None;
        }
        self.scan(probe, is_it)
    }

    /// Locks all buckets of two keys.
    pub(crate) fn lock(&self, [a, b]: &[Probe; 2]) -> BucketGuards<'_, 4> {
        let numbers = [a.first(), a.second(), b.first(), b.second()];
        BucketGuards::lock(numbers, |number| self.bucket(number))
    }

    /// An empty slot in a bucket, other than `taken`.
    #[inline]
    pub(crate) fn vacancy(&self, bucket: usize, taken: Option<Place>) -> Option<Place> {
        let taken = taken.filter(|taken| taken.bucket == bucket).map(|taken| taken.slot);
        self.bucket(bucket).vacancy(taken).map(|slot| Place { bucket, slot })
    }

    /// Writes an entry into an empty slot; only under the locks of its bucket
    /// and of the key's first.
    #[inline]
    pub(crate) fn put(&self, place: Place, probe: &Probe, entry: Entry) {
        if place.bucket != probe.first() {
            self.bucket(probe.first()).spill();
        }
        self.bucket(place.bucket).fill(place.slot, entry);
    }

    /// Removes an entry; only under the locks of both its buckets.
    pub(crate) fn erase(&self, probe: &Probe, entry: Entry) {
        for number in [probe.first(), probe.second()] {
            let bucket = self.bucket(number);
            if let Some(slot) = bucket.slot_of(entry) {
                bucket.clear(slot);
                if number != probe.first() {
                    self.bucket(probe.first()).unspill();
                }
                return;
            }
        }
    }

    /// Moves the entries of a bucket that is their second to their first, where
    /// that has room; how many.
    pub(crate) fn bring_home(&self, bucket: usize) -> usize {
        let comes = |slot: &usize| {
            let entry = self.bucket(bucket).load(*slot);
            if entry.is_empty() {
                return false;
            }
            // Read without a lock: another may be there when the move looks again.
            let home = self.probe(entry.sought()).first();
            let to = if home == bucket { None } else { self.vacancy(home, None) };
            let from = Place { bucket, slot: *slot };
            to.is_some_and(|to| self.shift_if(from, to, |entry| entry.first() == to.bucket))
        };
        (0..SLOTS).filter(comes).count()
    }

    /// Moves an entry from `from` to its other bucket's slot `to`, if one with
    /// that other bucket is there and `to` still empty; whether it did.
    pub(crate) fn shift(&self, from: Place, to: Place) -> bool {
        self.shift_if(from, to, |_| true)
    }

    /// The same for an entry that is `wanted`.
    fn shift_if(&self, from: Place, to: Place, wanted: impl Fn(&Probe) -> bool) -> bool {
        let (source, target) = (self.bucket(from.bucket), self.bucket(to.bucket));
        let _held = Pair::lock(source, target);
        let entry = source.load(from.slot);
        let probe = self.probe(entry.sought());
        let comes_home = probe.second() == from.bucket && probe.first() == to.bucket;
        let fits = comes_home || probe.first() == from.bucket && probe.second() == to.bucket;
        if entry.is_empty() || !fits || !wanted(&probe) || !target.load(to.slot).is_empty() {
            return false;
        }
        if !comes_home {
            source.spill();
        }
        // Twice: a reader that has found the copy sees the first step, and one that
        // has missed the original the second.
        self.moves.step([from.bucket, to.bucket]);
        target.fill(to.slot, entry);
        self.moves.step([from.bucket, to.bucket]);
        source.clear(from.slot);
        if comes_home {
            target.unspill();
        }
        true
    }
}
