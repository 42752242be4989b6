//! Lookups of a burst, in stages: while one key's cache line is on its way,
//! the others are worked on.
use wire::FlowKey;

use crate::family::FamilyTable;
use crate::id::Hit;
use crate::index::Probe;
use crate::key::{AnyKey, Family, Key};
use crate::table::ConnTable;

/// Keys worked on at a time.
const BURST: usize = if cfg!(loom) { 2 } else { 64 };

impl ConnTable {
    /// Looks up `keys`, each as [`Self::lookup`] does, and writes what it finds
    /// to `out`, as far as both reach. Best with bursts of 8 to 64. Reads no
    /// records of IPv4 connections: who will need one calls [`Self::prefetch`].
    pub fn lookup_burst(&self, keys: &[FlowKey], out: &mut [Option<Hit>]) {
        for (keys, out) in keys.chunks(BURST).zip(out.chunks_mut(BURST)) {
            self.lookup_chunk(keys, out);
        }
    }

    fn lookup_chunk(&self, keys: &[FlowKey], out: &mut [Option<Hit>]) {
        let moved = [self.v4.index().moved(), self.v6.index().moved()];
        let mut probes = [Probe::default(); BURST];
        for (key, probe) in keys.iter().zip(&mut probes) {
            *probe = match AnyKey::from(key) {
                AnyKey::V4(key) => approach(&self.v4, &key),
                AnyKey::V6(key) => approach(&self.v6, &key),
            };
        }
        for ((key, probe), out) in keys.iter().zip(&probes).zip(&mut *out) {
            *out = match key {
                FlowKey::V4(_) => guess(&self.v4, probe),
                FlowKey::V6(_) => guess(&self.v6, probe),
            };
        }
        let still = self.v4.index().still(moved[0]) && self.v6.index().still(moved[1]);
        for ((key, probe), out) in keys.iter().zip(&probes).zip(out) {
            let sure = match (key, &*out) {
                (_, None) => false,
                (FlowKey::V4(_), Some(_)) => still,
                (FlowKey::V6(flow), Some(hit)) => {
                    still && self.v6.seems(hit.reference(), &flow.into())
                }
            };
            if !sure {
                *out = self.lookup_slowly(key, probe);
            }
        }
    }

    /// A key that was not found, or not for sure.
    #[cold]
    #[inline(never)]
    fn lookup_slowly(&self, key: &FlowKey, probe: &Probe) -> Option<Hit> {
        match AnyKey::from(key) {
            AnyKey::V4(key) => hit::<1>(self.v4.lookup_surely(probe, &key)?),
            AnyKey::V6(key) => hit::<4>(self.v6.lookup_surely(probe, &key)?),
        }
    }
}

#[inline]
fn hit<const K: usize>(reference: crate::bucket::Reference) -> Option<Hit>
where
    Key<K>: Family,
{
    Some(Hit::new(reference, <Key<K> as Family>::ID_BIT))
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

/// Stage 2: find the key, and fetch the record that is to confirm it.
#[inline]
fn guess<const K: usize>(family: &FamilyTable<K>, probe: &Probe) -> Option<Hit>
where
    Key<K>: Family,
{
    let found = family.index().guess(probe);
    if !<Key<K> as Family>::WHOLE {
        family.prefetch_record(found.map_or(0, |found| found.record()));
    }
    found.and_then(hit::<K>)
}
