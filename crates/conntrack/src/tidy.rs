//! Bringing keys home.
//!
//! A key that finds its first bucket full goes to its second, and would stay
//! there when others have left the first: as connections come and go, a quarter
//! of the keys end up there, where a table that was only filled has a tenth. Each
//! costs a lookup another cache line. The keeper moves them back.
use crate::family::FamilyTable;
use crate::key::{Family, Key};
use crate::table::ConnTable;
use crate::walk::Slice;

impl ConnTable {
    /// Walks on over at most `budget` buckets of the index, at most once around,
    /// and moves keys from their second bucket to their first where that has
    /// room; how many. For the keeper: locks two buckets for each of these, as
    /// an insertion does, and lookups of that moment look again.
    pub fn tidy(&self, budget: usize) -> usize {
        let ends = [self.v4.buckets(), self.v6.buckets()];
        let bring = |slice: Slice| {
            if slice.is_v6 { bring(&self.v6, slice) } else { bring(&self.v4, slice) }
        };
        self.tidied.slices(ends, budget).map(bring).sum()
    }
}

fn bring<const K: usize>(family: &FamilyTable<K>, slice: Slice) -> usize
where
    Key<K>: Family,
{
    let buckets = slice.start..slice.start.saturating_add(slice.count);
    buckets.map(|bucket| family.index().bring_home(bucket as usize)).sum()
}
