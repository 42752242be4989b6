//! Lookups of a burst, in stages: while one key's cache line is on its way,
//! the others are worked on.
use wire::FlowKey;

use crate::bucket::Reference;
use crate::family::FamilyTable;
use crate::id::Hit;
use crate::index::Probe;
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
        let mut probes = [Probe::default(); BURST];
        for (key, probe) in keys.iter().zip(&mut probes) {
            *probe = match AnyKey::from(key) {
                AnyKey::V4(key) => approach(&self.v4, &key),
                AnyKey::V6(key) => approach(&self.v6, &key),
            };
        }
        let mut guesses = [Reference::NONE; BURST];
        for ((key, probe), guess) in keys.iter().zip(&probes).zip(&mut guesses) {
            *guess = match key {
                FlowKey::V4(_) => draw_near(&self.v4, *probe),
                FlowKey::V6(_) => draw_near(&self.v6, *probe),
            };
        }
        for ((key, guess), out) in keys.iter().zip(&guesses).zip(out) {
            let hit = match AnyKey::from(key) {
                AnyKey::V4(key) => confirm(&self.v4, &key, *guess),
                AnyKey::V6(key) => confirm(&self.v6, &key, *guess),
            };
            *out = hit.or_else(|| self.lookup_slowly(key));
        }
    }

    /// A key whose tag was not found, or is another's too.
    #[cold]
    #[inline(never)]
    fn lookup_slowly(&self, key: &FlowKey) -> Option<Hit> {
        self.lookup(key)
    }
}

/// Stage 1: hash, and fetch the buckets.
#[inline]
fn approach<const K: usize>(family: &FamilyTable<K>, key: &Key<K>) -> Probe
where
    Key<K>: Family,
{
    let probe = family.probe(key);
    family.index().prefetch(probe.first());
    family.index().prefetch(probe.second());
    probe
}

/// Stage 2: find the tag, and fetch the record.
#[inline]
fn draw_near<const K: usize>(family: &FamilyTable<K>, probe: Probe) -> Reference
where
    Key<K>: Family,
{
    let guess = family.index().guess(probe).unwrap_or(Reference::NONE);
    family.prefetch_record(guess.record());
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
