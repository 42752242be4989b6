//! Lookups of a burst, in stages: while one key's cache line is on its way,
//! the others are worked on.
use wire::FlowKey;

use crate::family::FamilyTable;
use crate::id::Hit;
use crate::index::Probe;
use crate::key::{AnyKey, Family, Key, Key4, Key6};
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
        for ((key, probe), out) in keys.iter().zip(&probes).zip(&mut *out) {
            *out = match key {
                FlowKey::V4(_) => guess(&self.v4, *probe),
                FlowKey::V6(_) => guess(&self.v6, *probe),
            };
        }
        for ((key, probe), out) in keys.iter().zip(&probes).zip(out) {
            *out = match AnyKey::from(key) {
                AnyKey::V4(key) => settle(&self.v4, &key, *probe, *out, Key4::ID_BIT),
                AnyKey::V6(key) => settle(&self.v6, &key, *probe, *out, Key6::ID_BIT),
            };
        }
    }
}

/// Stage 1: hash, and fetch the first bucket.
#[inline]
fn approach<const K: usize>(family: &FamilyTable<K>, key: &Key<K>) -> Probe
where
    Key<K>: Family,
{
    let probe = family.probe(key);
    family.index().prefetch(probe.first);
    family.index().prefetch(probe.second);
    probe
}

/// Stage 2: find the tag, and fetch the record.
#[inline]
fn guess<const K: usize>(family: &FamilyTable<K>, probe: Probe) -> Option<Hit>
where
    Key<K>: Family,
{
    let guess = family.index().guess(probe)?;
    family.prefetch_record(guess.record());
    Some(Hit::new(guess, <Key<K> as Family>::ID_BIT))
}

/// Stage 3: compare the key; if it isn't this one, look properly.
#[inline]
fn settle<const K: usize>(
    family: &FamilyTable<K>,
    key: &Key<K>,
    probe: Probe,
    guess: Option<Hit>,
    id_bit: u32,
) -> Option<Hit>
where
    Key<K>: Family,
{
    let is_right = |hit: &Hit| family.is(hit.reference(), key);
    guess.filter(is_right).or_else(|| {
        let found = family.index().find_surely(probe, |reference| family.is(reference, key));
        found.map(|reference| Hit::new(reference, id_bit))
    })
}
