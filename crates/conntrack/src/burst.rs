//! Lookups: of one key, and of a burst in stages, where one key's cache line is
//! on its way while the others are worked on.
//!
//! Nine of ten keys are in their first bucket, and which the others are can't
//! be predicted. A burst notes them without a branch and turns to them later.
use arrayvec::ArrayVec;
use wire::{FlowKey, FlowV6};

use crate::bucket::{Bucket, Sought};
use crate::id::Hit;
use crate::index::Index;
use crate::key::{AnyKey, Family, Key4, Key6};
use crate::memory::vector::{Wide, by_width};
use crate::plain::PlainKey;
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

/// A key that a burst of which can be looked up.
trait Seek {
    /// Where it is looked for, as what, and the family's bit in its ids.
    fn seek<'a>(&self, table: &'a ConnTable) -> (&'a Index, Sought, u32);

    /// The same key for a single lookup.
    fn flow(&self) -> FlowKey;
}

impl Seek for FlowKey {
    #[inline]
    fn seek<'a>(&self, table: &'a ConnTable) -> (&'a Index, Sought, u32) {
        match self {
            Self::V4(flow) => (table.v4.index(), table.v4.sought(&flow.into()), Key4::ID_BIT),
            Self::V6(flow) => (table.v6.index(), table.sought_v6(flow), Key6::ID_BIT),
        }
    }

    fn flow(&self) -> FlowKey {
        *self
    }
}

impl Seek for PlainKey {
    #[inline]
    fn seek<'a>(&self, table: &'a ConnTable) -> (&'a Index, Sought, u32) {
        (table.v4.index(), table.v4.sought(&self.into()), Key4::ID_BIT)
    }

    fn flow(&self) -> FlowKey {
        (*self).into()
    }
}

impl ConnTable {
    /// A quick look for an IPv4 key.
    #[inline]
    pub(crate) fn glance(&self, key: &Key4) -> Option<Option<Hit>> {
        let hit = |found| Hit::new(found, Key4::ID_BIT);
        self.v4.glance(key).map(|found| found.map(hit))
    }

    /// For an IPv6 key. Not inlined: what it needs should not burden IPv4.
    #[inline(never)]
    pub(crate) fn glance_v6(&self, flow: &FlowV6) -> Option<Option<Hit>> {
        let hit = |found| Hit::new(found, Key6::ID_BIT);
        self.v6.glance(&flow.into()).map(|found| found.map(hit))
    }

    /// A key that a quick look can't tell about.
    #[cold]
    #[inline(never)]
    pub(crate) fn lookup_surely(&self, key: &FlowKey) -> Option<Hit> {
        match AnyKey::from(key) {
            AnyKey::V4(key) => self.v4.lookup(&key).map(|found| Hit::new(found, Key4::ID_BIT)),
            AnyKey::V6(key) => self.v6.lookup(&key).map(|found| Hit::new(found, Key6::ID_BIT)),
        }
    }

    /// Looks up `keys`, each as [`Self::lookup`] does, and writes what it finds
    /// to `out`, as far as both reach. Best with bursts of 8 to 64. Reads no
    /// records of IPv4 connections: who will need one calls [`Self::prefetch`].
    pub fn lookup_burst(&self, keys: &[FlowKey], out: &mut [Option<Hit>]) {
        by_width!(self.width, |by| self.lookup_all::<_, false>(by, keys, out));
    }

    /// [`Self::lookup`] for an IPv4 key that is words already.
    #[inline]
    #[must_use]
    pub fn lookup_plain(&self, key: &PlainKey) -> Option<Hit> {
        self.glance(&key.into()).unwrap_or_else(|| self.lookup_surely(&key.flow()))
    }

    /// [`Self::lookup_burst`] for such keys.
    pub fn lookup_plain_burst(&self, keys: &[PlainKey], out: &mut [Option<Hit>]) {
        by_width!(self.width, |by| self.lookup_all::<_, false>(by, keys, out));
    }

    /// The same, and fetches the records of what it finds, for [`Self::plain`].
    #[inline]
    pub fn lookup_plain_ahead(&self, keys: &[PlainKey], out: &mut [Option<Hit>]) {
        by_width!(self.width, |by| self.lookup_all::<_, true>(by, keys, out));
    }

    #[inline]
    fn lookup_all<T: Seek, const AHEAD: bool>(
        &self,
        by: impl Wide,
        keys: &[T],
        out: &mut [Option<Hit>],
    ) {
        // As far as both reach: a small burst must not pay for a large `out`.
        let len = keys.len().min(out.len());
        let (Some(keys), Some(out)) = (keys.get(..len), out.get_mut(..len)) else { return };
        for (keys, out) in keys.chunks(BURST).zip(out.chunks_mut(BURST)) {
            self.lookup_chunk::<T, AHEAD>(by, keys, out);
        }
    }

    /// `AHEAD`: the records of what is found are fetched, too; only of IPv4.
    #[inline]
    fn lookup_chunk<T: Seek, const AHEAD: bool>(
        &self,
        by: impl Wide,
        keys: &[T],
        out: &mut [Option<Hit>],
    ) {
        let moved = [self.v4.index().moved(), self.v6.index().moved()];
        let mut starts = Starts::new();
        let families = self.approach(keys, &mut starts);
        let (mut elsewhere, mut count) = ([0_u8; BURST], 0);
        for ((start, out), at) in starts.iter().zip(&mut *out).zip(0..) {
            let (reference, same) = start.first.own_by(by, &start.sought);
            // Whatever it is, those noted are written again.
            *out = Some(Hit::new(reference, start.id_bit));
            if AHEAD {
                // Under way while the second buckets of others are waited for.
                let number = if same { reference.record() } else { 0 };
                self.v4.prefetch_record(number);
            }
            elsewhere[count % BURST] = at;
            count += usize::from(!same);
        }
        by.done();
        let which = elsewhere.get(..count).unwrap_or(&[]);
        let told = self.look_elsewhere::<AHEAD>(&starts, which, out);
        let still = self.v4.index().still(moved[0]) && self.v6.index().still(moved[1]);
        if !told || !still || families != 0 {
            self.make_sure(keys, told, still, out);
        }
    }

    /// Stage 1: hash, and fetch the first bucket; whether there is any key of
    /// IPv6.
    #[inline]
    fn approach<'a, T: Seek>(&'a self, keys: &[T], starts: &mut Starts<'a>) -> u32 {
        let mut families = 0;
        for key in keys.iter().take(BURST) {
            let (index, sought, id_bit) = key.seek(self);
            let (first, second) = index.approach(sought);
            starts.push(Start { sought, first, second, id_bit });
            families |= id_bit;
        }
        families
    }

    #[inline(never)]
    fn sought_v6(&self, flow: &FlowV6) -> Sought {
        self.v6.sought(&flow.into())
    }

    fn index(&self, id_bit: u32) -> &Index {
        if id_bit == Key4::ID_BIT { self.v4.index() } else { self.v6.index() }
    }

    /// Stage 2b: the second buckets of those that were not in the first, if that
    /// has spilled at all; whether each is found or not there, as far as one can
    /// tell without the count of moves.
    #[inline]
    fn look_elsewhere<const AHEAD: bool>(
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
            if let (true, Some(found)) = (AHEAD, found) {
                self.v4.prefetch_record(found.record());
            }
            if let Some(out) = out.get_mut(usize::from(at)) {
                *out = found.map(|reference| Hit::new(reference, id_bit));
            }
        }
        all
    }

    /// Stage 3, if need be: looks again for what was not found, or not for sure.
    #[cold]
    #[inline(never)]
    fn make_sure<T: Seek>(&self, keys: &[T], told: bool, still: bool, out: &mut [Option<Hit>]) {
        if still {
            for hit in out.iter().flatten().filter(|hit| hit.conn.is_v6()) {
                self.v6.prefetch_record(hit.conn.record());
            }
        }
        for (key, out) in keys.iter().zip(out) {
            let key = &key.flow();
            let sure = still
                && match (key, &*out) {
                    (_, None) => told,
                    (FlowKey::V4(_), Some(_)) => true,
                    (FlowKey::V6(flow), Some(hit)) => self.v6.is(hit.reference(), &flow.into()),
                };
            if !sure {
                *out = self.lookup_surely(key);
            }
        }
    }
}
