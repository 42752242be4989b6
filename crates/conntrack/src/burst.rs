//! Lookups of a burst, in stages: while one key's cache line is on its way,
//! the others are worked on.
use wire::FlowKey;

use crate::bucket::Reference;
use crate::family::FamilyTable;
use crate::id::Hit;
use crate::index::Start;
use crate::key::{AnyKey, Family, Key};
use crate::table::ConnTable;

/// Keys worked on at a time.
const BURST: usize = if cfg!(loom) { 2 } else { 64 };

impl ConnTable {
    /// Looks up `keys`, each as [`Self::lookup`] does, and writes what it finds
    /// to `out`, as far as both reach. Best with bursts of 8 to 64.
    pub fn lookup_burst(&self, keys: &[FlowKey], out: &mut [Option<Hit>]) {
        for (keys, out) in keys.chunks(BURST).zip(out.chunks_mut(BURST)) {
            self.lookup_chunk(keys, out);
        }
    }

    fn lookup_chunk(&self, keys: &[FlowKey], out: &mut [Option<Hit>]) {
        let mut starts = [Start::default(); BURST];
        for (key, start) in keys.iter().zip(&mut starts) {
            *start = match AnyKey::from(key) {
                AnyKey::V4(key) => approach(&self.v4, &key),
                AnyKey::V6(key) => approach(&self.v6, &key),
            };
        }
        let mut guesses = [Reference::NONE; BURST];
        let (mut elsewhere, mut count) = ([0_u8; BURST], 0);
        for (((key, start), guess), at) in keys.iter().zip(&starts).zip(&mut guesses).zip(0..) {
            *guess = match key {
                FlowKey::V4(_) => draw_near(&self.v4, *start),
                FlowKey::V6(_) => draw_near(&self.v6, *start),
            };
            // Which bucket has a key can't be predicted, so this doesn't branch.
            elsewhere[count % BURST] = at;
            count += usize::from(*guess == Reference::NONE);
        }
        self.look_elsewhere(keys, &starts, &mut guesses, elsewhere.get(..count).unwrap_or(&[]));
        for ((key, guess), out) in keys.iter().zip(&guesses).zip(out) {
            let hit = match AnyKey::from(key) {
                AnyKey::V4(key) => confirm(&self.v4, &key, *guess),
                AnyKey::V6(key) => confirm(&self.v6, &key, *guess),
            };
            *out = hit.or_else(|| self.lookup_slowly(key));
        }
    }

    /// Stage 2b: the second buckets of those that were not in the first.
    fn look_elsewhere(
        &self,
        keys: &[FlowKey],
        starts: &[Start; BURST],
        guesses: &mut [Reference; BURST],
        which: &[u8],
    ) {
        let mut others = [0; BURST];
        for (&at, other) in which.iter().zip(&mut others) {
            let at = usize::from(at) % BURST;
            *other = match keys.get(at) {
                Some(FlowKey::V4(_)) => turn(&self.v4, starts[at]),
                Some(FlowKey::V6(_)) => turn(&self.v6, starts[at]),
                None => 0,
            };
        }
        for (&at, &first) in which.iter().zip(&others) {
            let at = usize::from(at) % BURST;
            let start = Start { first, ..starts[at] };
            guesses[at] = match keys.get(at) {
                Some(FlowKey::V4(_)) => draw_near(&self.v4, start),
                Some(FlowKey::V6(_)) => draw_near(&self.v6, start),
                None => Reference::NONE,
            };
        }
    }

    /// A key whose tag was not found, or is another's too.
    #[cold]
    #[inline(never)]
    fn lookup_slowly(&self, key: &FlowKey) -> Option<Hit> {
        self.lookup(key)
    }
}

/// Stage 1: hash, and fetch the first bucket. Five of six keys are there; to
/// fetch the second, too, would cost more than it saves once the table is
/// larger than the caches.
#[inline]
fn approach<const K: usize>(family: &FamilyTable<K>, key: &Key<K>) -> Start
where
    Key<K>: Family,
{
    let start = family.start(key);
    family.index().prefetch(start.first as usize);
    start
}

/// The second bucket, fetched.
#[inline]
fn turn<const K: usize>(family: &FamilyTable<K>, start: Start) -> u32
where
    Key<K>: Family,
{
    let other = family.index().other(start.first as usize, start.tag);
    family.index().prefetch(other);
    other as u32
}

/// Stage 2: find the tag, and fetch the record.
#[inline]
fn draw_near<const K: usize>(family: &FamilyTable<K>, start: Start) -> Reference
where
    Key<K>: Family,
{
    let guess = family.index().bucket(start.first as usize).hint(start.tag);
    family.prefetch_record(if guess == Reference::NONE { 0 } else { guess.record() });
    guess
}

/// Stage 3: compare the key.
#[inline]
fn confirm<const K: usize>(family: &FamilyTable<K>, key: &Key<K>, guess: Reference) -> Option<Hit>
where
    Key<K>: Family,
{
    // The record of `Reference::NONE` is beyond the last.
    family.is(guess, key).then(|| Hit::new(guess, <Key<K> as Family>::ID_BIT))
}
