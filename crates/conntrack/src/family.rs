//! The table of one address family: records and their index.
use flow::Direction;

use crate::bucket::{Entry, Reference, Sought};
use crate::free::Free;
use crate::hash::Digest;
use crate::index::{Index, Probe};
use crate::insert::entries;
use crate::key::{Family, Key};
use crate::life::Life;
use crate::locks::Pair;
use crate::memory::{OutOfMemory, Slab};
use crate::readers::Readers;
use crate::record::{Content, Record};
use crate::seed::KeyStream;
use crate::segment::{Began, Segment};
use crate::stack::NIL;
use crate::state::Event;
use crate::sync::{AtomicU32, AtomicU64, Ordering};
use crate::time::Pressure;

/// All connections of one family.
#[derive(Debug)]
pub struct FamilyTable<const K: usize> {
    records: Slab<Record<K>>,
    /// By record. Apart from them: an IPv4 record is full, and only handshakes and
    /// RST need it.
    began: Slab<Began>,
    index: Index,
    digest: Digest<K>,
    pub(crate) free: Free,
    removals: AtomicU64,
    pub(crate) full: AtomicU64,
}

/// Counts of one family's table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FamilyStats {
    /// Connections that fit.
    pub capacity: usize,
    /// Connections that are in.
    pub len: usize,
    /// Bytes of records, index, locks and counters.
    pub memory_bytes: usize,
    /// Insertions.
    pub inserts: u64,
    /// Removals.
    pub removals: u64,
    /// Insertions refused because there was no record or no place in the index.
    pub full: u64,
    /// Entries moved to their other bucket.
    pub moves: u64,
    /// Lookups that looked again because of a move.
    pub retries: u64,
}

impl<const K: usize> FamilyTable<K>
where
    Key<K>: Family,
{
    /// A table for `records` connections with an index of `buckets` buckets.
    pub(crate) fn new(
        records: usize,
        buckets: usize,
        seed: &[u8; 32],
    ) -> Result<Self, OutOfMemory> {
        let mut stream = KeyStream::new(seed, [<Key<K> as Family>::STREAM, 0, 0], 0);
        Ok(Self {
            records: Slab::new(records)?,
            began: Slab::new(records)?,
            index: Index::new(buckets, &mut stream)?,
            digest: Digest::new(&mut stream),
            free: Free::new(records),
            removals: AtomicU64::new(0),
            full: AtomicU64::new(0),
        })
    }

    pub(crate) fn stats(&self) -> FamilyStats {
        let removals = self.removals.load(Ordering::Relaxed);
        let len = self.len();
        FamilyStats {
            capacity: self.records.len(),
            len: len as usize,
            memory_bytes: self.records.bytes() + self.began.bytes() + self.index.bytes(),
            inserts: removals + u64::from(len),
            removals,
            full: self.full.load(Ordering::Relaxed),
            moves: self.index.moves().count(),
            retries: self.index.retried.load(Ordering::Relaxed),
        }
    }

    /// Record number `number`; `None` for numbers this table doesn't have.
    #[inline]
    pub(crate) fn record(&self, number: u32) -> Option<&Record<K>> {
        self.records.get(number as usize)
    }

    /// Counts a packet of the connection in record `number`; `None` if there is
    /// none.
    #[inline]
    pub(crate) fn count(
        &self,
        number: u32,
        direction: Direction,
        segment: Option<Segment>,
        now: u32,
    ) -> Option<Event> {
        let (record, began) = self.record_and_began(number)?;
        record.count(direction, segment, began, now)
    }

    /// Record number `number`, and where its client's sequence numbers began.
    #[inline]
    pub(crate) fn record_and_began(&self, number: u32) -> Option<(&Record<K>, &Began)> {
        Some((self.record(number)?, self.began.get(number as usize)?))
    }

    /// How full the table is: 0 while half of the records are free, and one more
    /// whenever that has halved again, up to 4.
    pub(crate) fn pressure(&self) -> Pressure {
        let (all, free) = (self.records.len() as u32, self.free_records());
        Pressure((1..=4).take_while(|&halved| free < all >> halved).count() as u32)
    }

    /// Records that have no connection.
    pub(crate) fn free_records(&self) -> u32 {
        (self.records.len() as u32).saturating_sub(self.len())
    }

    /// How many connections there are.
    fn len(&self) -> u32 {
        // Every insertion takes a record. Modulo 2^32; below zero if others remove
        // meanwhile.
        let removals = self.removals.load(Ordering::Relaxed);
        (self.free.taken().wrapping_sub(removals as u32) as i32).max(0) as u32
    }

    /// Numbers of records that have ever been used: all below this.
    pub(crate) fn used(&self) -> u32 {
        self.free.used()
    }

    /// For one that will be written.
    #[inline]
    pub(crate) fn prefetch_free(&self, number: u32) {
        self.records.prefetch_write(number as usize);
    }

    /// Fetches every cache line of a record.
    #[inline]
    pub(crate) fn prefetch_record(&self, number: u32) {
        self.records.prefetch_whole(number as usize);
    }

    #[inline]
    pub(crate) fn probe(&self, key: &Key<K>) -> Probe {
        self.index.probe(self.digest.sought(key))
    }

    #[inline]
    pub(crate) fn index(&self) -> &Index {
        &self.index
    }

    /// Buckets of the index.
    pub(crate) fn buckets(&self) -> u32 {
        self.index.len()
    }

    #[inline]
    pub(crate) fn is(&self, reference: Reference, key: &Key<K>) -> bool {
        self.record(reference.record()).is_some_and(|record| record.has(reference.direction(), key))
    }

    /// Whether an entry of the index that looks like `key`'s is; exact if no
    /// entry moves meanwhile.
    #[inline]
    pub(crate) fn seems(&self, reference: Reference, key: &Key<K>) -> bool {
        <Key<K> as Family>::WHOLE || self.is(reference, key)
    }

    /// What a slot with `key` holds.
    #[inline]
    pub(crate) fn sought(&self, key: &Key<K>) -> Sought {
        self.digest.sought(key)
    }

    /// The entry of `key`, or that there is none at one moment during the call;
    /// `None` if a quick look can't tell. A single lookup looks into `BOTH` buckets
    /// at once, since which of them has the key can't be predicted; a burst looks
    /// into the first, and into the second if anything has spilled.
    #[inline]
    pub(crate) fn look<const BOTH: bool>(&self, key: &Key<K>) -> Option<Option<Reference>> {
        let (before, sought) = (self.index.moves().now(), self.sought(key));
        let (found, sure) = if BOTH {
            self.index.guess(sought)
        } else {
            let (first, second) = self.index.approach(sought);
            match first.own(sought) {
                (reference, true) => (Some(reference), true),
                _ => self.index.beyond(first, second, sought),
            }
        };
        let told = match found {
            Some(found) => self.seems(found, key),
            None => sure,
        };
        (told && self.index.is_sure(sought, before)).then_some(found)
    }

    /// The entry of `key`, by the record; `None` means that at one moment during
    /// the call the key was not there. For keys about which [`Self::look`] can't tell.
    #[cold]
    pub(crate) fn look_surely(&self, key: &Key<K>) -> Option<Reference> {
        self.index.find_surely(&self.probe(key), |reference| self.is(reference, key))
    }

    /// Whether no record is free; counts that as a refusal.
    #[inline]
    pub(crate) fn refuses(&self) -> bool {
        let refused = self.free.is_empty();
        if refused {
            self.full.fetch_add(1, Ordering::Relaxed);
        }
        refused
    }

    #[inline]
    pub(crate) fn link(&self, number: u32) -> Option<&AtomicU32> {
        if number == NIL { None } else { self.record(number).map(Record::link) }
    }

    /// Ends a connection's life, takes its keys out and hands the record to
    /// limbo; its content. Of several callers one gets it.
    pub(crate) fn remove(&self, number: u32) -> Option<Content<K>> {
        self.remove_if(number, |_| true)
    }

    /// As [`Self::remove`], if `may` says so at the very moment of the end.
    pub(crate) fn remove_if(&self, number: u32, may: fn(Life) -> bool) -> Option<Content<K>> {
        let record = self.record(number)?;
        let (life, content) = record.read()?;
        let probes = content.keys.each_ref().map(|key| self.probe(key));
        let known = if content.is_one_way() { 1 } else { 2 };
        let entries = entries(&probes, number);
        let gone = self.remove_first(&probes[..known], &entries, || end(record, life, may));
        if gone.is_none() {
            let _held = self.index.lock(&probes);
            end(record, life, may)?;
            for (probe, entry) in probes.iter().zip(entries).take(known) {
                self.index.erase(probe, entry);
            }
        }
        self.removals.fetch_add(1, Ordering::Relaxed);
        self.free.leave(number, |number| self.link(number));
        Some(content)
    }

    /// Removes entries from the first buckets, under their locks, if all are
    /// there and `end` is the end of their connection.
    fn remove_first(
        &self,
        probes: &[Probe],
        entries: &[Entry; 2],
        end: impl FnOnce() -> Option<()>,
    ) -> Option<()> {
        let bucket = |probe: &Probe| self.index.bucket(probe.first());
        let (one, other) = (bucket(probes.first()?), bucket(probes.last()?));
        let _held = Pair::lock(one, other);
        let mut slots = [None; 2];
        for ((probe, entry), slot) in probes.iter().zip(entries).zip(&mut slots) {
            *slot = Some((bucket(probe), bucket(probe).slot_of(*entry)?));
        }
        end()?;
        slots.into_iter().flatten().for_each(|(bucket, slot)| bucket.clear(slot));
        Some(())
    }

    /// Gives removed records back that no reader can hold any more; how many.
    pub(crate) fn reclaim(&self, readers: &Readers) -> usize {
        self.free.reclaim(readers, |number| self.link(number))
    }
}

/// Ends exactly the life that `life` belongs to, in whatever state it is now,
/// unless `may` forbids it in that state.
fn end<const K: usize>(record: &Record<K>, life: Life, may: fn(Life) -> bool) -> Option<()> {
    let mut now = life;
    while may(now) {
        match record.change_life(now, now.ended()) {
            Ok(()) => return Some(()),
            Err(found) if found.is_live() && found.generation() == life.generation() => now = found,
            Err(_) => return None,
        }
    }
    None
}
