//! Lookups: of one key, and of a burst in stages, where one key's cache line is
//! on its way while the others are worked on.
//!
//! Nine of ten keys are in their first bucket, and which the others are can't
//! be predicted. A burst notes them without a branch and turns to them later.
use arrayvec::ArrayVec;
use wire::{FlowKey, FlowV6};

use crate::bucket::{Bucket, Sought};
use crate::fast::FastKey;
use crate::id::Hit;
use crate::index::Index;
use crate::key::{AnyKey, Family, Key, Key4, Key6};
use crate::memory::vector::{Wide, by_width};
use crate::table::ConnTable;

/// Keys worked on at a time.
const BURST: usize = if cfg!(loom) { 2 } else { 64 };

/// Where a search for a key begins, and what is needed to go on.
#[derive(Clone, Copy)]
struct Start<'a> {
    sought: Sought,
    first: &'a Bucket,
    /// Says the second bucket.
    second: u32,
    /// Says the family.
    id_bit: u32,
}

/// Of a burst. Not an array: filling one costs a small burst more than its lookups.
type Starts<'a> = ArrayVec<Start<'a>, BURST>;

/// A 5-tuple in a form that the table looks up.
pub trait LookupKey: Copy {
    /// Whether what a burst's lookup finds for an IPv6 key has been compared with
    /// the record.
    #[doc(hidden)]
    const COMPARED: bool;

    /// Where it is looked for, as what, and the family's bit in its ids.
    #[doc(hidden)]
    fn seek<'a>(&self, table: &'a ConnTable) -> Seek<'a>;

    /// A quick look; `None` if that can't tell.
    #[doc(hidden)]
    fn look(&self, table: &ConnTable) -> Option<Option<Hit>>;

    /// Brings the record of an entry found for such a key closer, if all of such
    /// keys are of one family.
    #[doc(hidden)]
    fn fetch(table: &ConnTable, record: u32);

    /// The same key in the general form.
    #[doc(hidden)]
    fn flow(&self) -> FlowKey;
}

/// What [`LookupKey::seek`] says.
#[derive(Clone, Copy)]
pub struct Seek<'a> {
    index: &'a Index,
    sought: Sought,
    id_bit: u32,
}

impl LookupKey for FlowKey {
    const COMPARED: bool = true;

    #[inline]
    fn seek<'a>(&self, table: &'a ConnTable) -> Seek<'a> {
        match self {
            Self::V4(flow) => table.seek_v4(&flow.into()),
            Self::V6(flow) => table.seek_v6(flow),
        }
    }

    #[inline]
    fn look(&self, table: &ConnTable) -> Option<Option<Hit>> {
        match self {
            Self::V4(flow) => table.look_v4(&flow.into()),
            Self::V6(flow) => table.look_v6(flow),
        }
    }

    #[inline]
    fn fetch(_table: &ConnTable, _record: u32) {}

    fn flow(&self) -> FlowKey {
        *self
    }
}

impl<const K: usize> LookupKey for Key<K>
where
    Key<K>: FastKey<K>,
{
    const COMPARED: bool = false;

    #[inline]
    fn seek<'a>(&self, table: &'a ConnTable) -> Seek<'a> {
        let (family, id_bit) = (<Self as FastKey<K>>::table(table), <Self as Family>::ID_BIT);
        Seek { index: family.index(), sought: family.sought(self), id_bit }
    }

    #[inline]
    fn look(&self, table: &ConnTable) -> Option<Option<Hit>> {
        let hit = |found| Hit::new(found, <Self as Family>::ID_BIT);
        <Self as FastKey<K>>::table(table).look::<true>(self).map(|found| found.map(hit))
    }

    #[inline]
    fn fetch(table: &ConnTable, record: u32) {
        <Self as FastKey<K>>::table(table).prefetch_record(record);
    }

    fn flow(&self) -> FlowKey {
        self.into()
    }
}

impl ConnTable {
    #[inline]
    fn seek_v4(&self, key: &Key4) -> Seek<'_> {
        Seek { index: self.v4.index(), sought: self.v4.sought(key), id_bit: Key4::ID_BIT }
    }

    /// Not inlined: what it needs should not burden IPv4.
    #[inline(never)]
    fn seek_v6(&self, flow: &FlowV6) -> Seek<'_> {
        let sought = self.v6.sought(&flow.into());
        Seek { index: self.v6.index(), sought, id_bit: Key6::ID_BIT }
    }

    #[inline]
    fn look_v4(&self, key: &Key4) -> Option<Option<Hit>> {
        let hit = |found| Hit::new(found, Key4::ID_BIT);
        self.v4.look::<true>(key).map(|found| found.map(hit))
    }

    /// Not inlined: as above.
    #[inline(never)]
    fn look_v6(&self, flow: &FlowV6) -> Option<Option<Hit>> {
        let hit = |found| Hit::new(found, Key6::ID_BIT);
        self.v6.look::<true>(&flow.into()).map(|found| found.map(hit))
    }

    /// A key that a quick look can't tell about.
    #[cold]
    #[inline(never)]
    fn look_surely(&self, key: &FlowKey) -> Option<Hit> {
        match AnyKey::from(key) {
            AnyKey::V4(key) => self.v4.look_surely(&key).map(|found| Hit::new(found, Key4::ID_BIT)),
            AnyKey::V6(key) => self.v6.look_surely(&key).map(|found| Hit::new(found, Key6::ID_BIT)),
        }
    }

    /// The connection whose packets carry `key`, and their direction. Locks
    /// nothing and writes nothing; `None` only if the connection was not in
    /// the table at one moment during the call.
    #[inline]
    #[must_use]
    pub fn lookup<T: LookupKey>(&self, key: &T) -> Option<Hit> {
        key.look(self).unwrap_or_else(|| self.look_surely(&key.flow()))
    }

    /// Looks up `keys`, each as [`Self::lookup`] does, and writes what it finds
    /// to `out`, as far as both reach. Best with bursts of 8 to 64. Where all
    /// keys are of one family by their type, the records of what is found are on
    /// their way into the cache afterwards; otherwise see [`Self::prefetch`].
    ///
    /// Of keys in words of IPv6 ([`Key<4>`]) the record is not compared: now and
    /// then a connection with the same digest is found, which
    /// [`Self::serve_found`] tells.
    #[inline]
    pub fn lookup_burst<T: LookupKey>(&self, keys: &[T], out: &mut [Option<Hit>]) {
        by_width!(self.width, |by| self.lookup_all(by, keys, out));
    }

    #[inline]
    fn lookup_all<T: LookupKey>(&self, by: impl Wide, keys: &[T], out: &mut [Option<Hit>]) {
        // As far as both reach: a small burst must not pay for a large `out`.
        let len = keys.len().min(out.len());
        let (Some(keys), Some(out)) = (keys.get(..len), out.get_mut(..len)) else { return };
        for (keys, out) in keys.chunks(BURST).zip(out.chunks_mut(BURST)) {
            self.lookup_chunk(by, keys, out);
        }
    }

    #[inline]
    fn lookup_chunk<T: LookupKey>(&self, by: impl Wide, keys: &[T], out: &mut [Option<Hit>]) {
        let before =
            Readings { v4: self.v4.index().moves().now(), v6: self.v6.index().moves().now() };
        let mut starts = Starts::new();
        let families = self.approach(keys, &mut starts);
        let (mut elsewhere, mut count) = ([0_u8; BURST], 0);
        for ((start, out), at) in starts.iter().zip(&mut *out).zip(0..) {
            let (reference, same) = start.first.own_by(by, &start.sought);
            // Whatever it is, those noted are written again.
            *out = Some(Hit::new(reference, start.id_bit));
            // Under way while the second buckets of others are waited for.
            T::fetch(self, if same { reference.record() } else { 0 });
            elsewhere[count % BURST] = at;
            count += usize::from(!same);
        }
        by.done();
        let which = elsewhere.get(..count).unwrap_or(&[]);
        let told = self.look_elsewhere::<T>(&starts, which, out);
        let still = self.v4.index().moves().none_since(before.v4)
            && self.v6.index().moves().none_since(before.v6);
        if !told || !still || families != 0 {
            self.make_sure(keys, told, before, out);
        }
    }

    /// Stage 1: hash, and fetch the first bucket; whether any key is one of IPv6
    /// that is to be compared.
    #[inline]
    fn approach<'a, T: LookupKey>(&'a self, keys: &[T], starts: &mut Starts<'a>) -> u32 {
        let mut families = 0;
        for key in keys.iter().take(BURST) {
            let Seek { index, sought, id_bit } = key.seek(self);
            let (first, second) = index.approach(sought);
            starts.push(Start { sought, first, second, id_bit });
            families |= if T::COMPARED { id_bit } else { 0 };
        }
        families
    }

    fn index(&self, id_bit: u32) -> &Index {
        if id_bit == Key4::ID_BIT { self.v4.index() } else { self.v6.index() }
    }

    /// Stage 2b: the second buckets of those that were not in the first, if that
    /// has spilled at all; whether each is found or not there, as far as one can
    /// tell without the count of moves.
    #[inline]
    fn look_elsewhere<T: LookupKey>(
        &self,
        starts: &Starts<'_>,
        which: &[u8],
        out: &mut [Option<Hit>],
    ) -> bool {
        let start = |at: &u8| starts.get(usize::from(*at));
        for &Start { first, second, id_bit, .. } in which.iter().filter_map(start) {
            self.index(id_bit).approach_second(first, second);
        }
        let mut all = true;
        for &at in which {
            let Some(&Start { sought, first, second, id_bit }) = start(&at) else { continue };
            let (found, told) = self.index(id_bit).beyond(first, second, sought);
            all &= told;
            if let Some(found) = found {
                T::fetch(self, found.record());
            }
            if let Some(out) = out.get_mut(usize::from(at)) {
                *out = found.map(|reference| Hit::new(reference, id_bit));
            }
        }
        all
    }

    /// Stage 3, if need be: looks again for keys that were not found, or in whose
    /// buckets something has moved.
    #[cold]
    #[inline(never)]
    fn make_sure<T: LookupKey>(
        &self,
        keys: &[T],
        told: bool,
        before: Readings,
        out: &mut [Option<Hit>],
    ) {
        for hit in out.iter().flatten().filter(|hit| hit.conn.is_v6()) {
            self.v6.prefetch_record(hit.conn.record());
        }
        for (key, out) in keys.iter().zip(out) {
            let Seek { index, sought, id_bit } = key.seek(self);
            let before = if id_bit == Key4::ID_BIT { before.v4 } else { before.v6 };
            let sure = match (key.flow(), &*out) {
                (_, None) => told,
                (FlowKey::V4(_), Some(_)) => true,
                (FlowKey::V6(_), Some(_)) if !T::COMPARED => true,
                (FlowKey::V6(flow), Some(hit)) => self.v6.is(hit.reference(), &(&flow).into()),
            };
            if !(sure && index.is_sure(sought, before)) {
                *out = self.look_surely(&key.flow());
            }
        }
    }
}

/// What the clocks of moves of both families read before a burst.
#[derive(Clone, Copy)]
struct Readings {
    v4: u64,
    v6: u64,
}
