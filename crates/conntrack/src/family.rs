//! The table of one address family: records and their index.
use crate::bucket::{Entry, Reference, Sought};
use crate::free::Free;
use crate::hash::Digest;
use crate::index::{Index, Place, Probe};
use crate::key::{Family, Key};
use crate::life::Life;
use crate::locks::Pair;
use crate::memory::{OutOfMemory, Slab};
use crate::path::Room;
use crate::readers::Readers;
use crate::record::{Content, Record};
use crate::seed::KeyStream;
use crate::stack::NIL;
use crate::state::TcpState;
use crate::sync::{AtomicU32, AtomicU64, Ordering};
use service::Direction;

/// Tries at an insertion that others disturb before it gives up.
const ATTEMPTS: usize = 32;

/// All connections of one family.
#[derive(Debug)]
pub(crate) struct FamilyTable<const K: usize> {
    records: Slab<Record<K>>,
    index: Index,
    digest: Digest<K>,
    free: Free,
    removals: AtomicU64,
    full: AtomicU64,
}

/// Why a connection was not inserted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    Full,
    Exists(Reference),
    ReplyConflict(Reference),
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
            index: Index::new(buckets, &mut stream)?,
            digest: Digest::new(&mut stream),
            free: Free::new(records),
            removals: AtomicU64::new(0),
            full: AtomicU64::new(0),
        })
    }

    pub(crate) fn stats(&self) -> FamilyStats {
        let removals = self.removals.load(Ordering::Relaxed);
        // Every insertion takes a record. Modulo 2^32; below zero if others remove
        // meanwhile.
        let len = (self.free.taken().wrapping_sub(removals as u32) as i32).max(0) as u32;
        FamilyStats {
            capacity: self.records.len(),
            len: len as usize,
            memory_bytes: self.records.bytes() + self.index.bytes(),
            inserts: removals + u64::from(len),
            removals,
            full: self.full.load(Ordering::Relaxed),
            moves: self.index.moves(),
            retries: self.index.retried.load(Ordering::Relaxed),
        }
    }

    /// Record number `number`; `None` for numbers this table doesn't have.
    #[inline]
    pub(crate) fn record(&self, number: u32) -> Option<&Record<K>> {
        self.records.get(number as usize)
    }

    /// Numbers of records that have ever been used: all below this.
    pub(crate) fn used(&self) -> u32 {
        self.free.used()
    }

    #[inline]
    pub(crate) fn prefetch_record(&self, number: u32) {
        self.records.prefetch(number as usize);
    }

    #[inline]
    pub(crate) fn probe(&self, key: &Key<K>) -> Probe {
        self.index.probe(self.digest.sought(key))
    }

    #[inline]
    pub(crate) fn index(&self) -> &Index {
        &self.index
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
    /// `None` if a quick look can't tell.
    #[inline]
    pub(crate) fn glance(&self, key: &Key<K>) -> Option<Option<Reference>> {
        let moved = self.index.moved();
        let found = self.index.guess(self.sought(key))?;
        let sure = found.is_none_or(|found| self.seems(found, key)) && self.index.still(moved);
        sure.then_some(found)
    }

    /// As [`Self::glance`], by the record, and `None` means that at one moment
    /// during the call the key was not there.
    #[cold]
    pub(crate) fn lookup(&self, key: &Key<K>) -> Option<Reference> {
        self.index.find_surely(&self.probe(key), |reference| self.is(reference, key))
    }

    /// Brings closer what an insertion of these keys will touch.
    #[inline]
    pub(crate) fn prefetch_insert(&self, keys: &[Key<K>; 2]) {
        self.approach(&keys.each_ref().map(|key| self.probe(key)));
    }

    #[inline]
    fn approach(&self, probes: &[Probe; 2]) {
        probes.iter().for_each(|probe| self.index.prefetch(probe.first()));
    }

    /// Inserts both keys of a connection or none; its record's number.
    #[inline]
    pub(crate) fn insert(&self, content: &Content<K>, seen: u32) -> Result<u32, Refusal> {
        let probes = content.keys.each_ref().map(|key| self.probe(key));
        self.approach(&probes);
        if let Some(done) = self.insert_first(content, &probes, seen) {
            return done;
        }
        self.insert_elsewhere(content, &probes, seen)
    }

    /// Into any of the four buckets, with room made there if need be.
    #[cold]
    #[inline(never)]
    fn insert_elsewhere(
        &self,
        content: &Content<K>,
        probes: &[Probe; 2],
        seen: u32,
    ) -> Result<u32, Refusal> {
        for _ in 0..ATTEMPTS {
            match self.insert_anywhere(content, probes, seen) {
                Ok(done) => return done,
                Err(Room::None) => break,
                Err(_) => {}
            }
        }
        self.full.fetch_add(1, Ordering::Relaxed);
        Err(Refusal::Full)
    }

    /// Into the first buckets, under their locks; `None` if there is no room.
    #[inline]
    fn insert_first(
        &self,
        content: &Content<K>,
        probes: &[Probe; 2],
        seen: u32,
    ) -> Option<Result<u32, Refusal>> {
        let [forward, reply] = probes;
        let buckets = [self.index.bucket(forward.first()), self.index.bucket(reply.first())];
        let [one, other] = buckets;
        let _held = Pair::lock(one, other);
        if !(one.has_none(forward.sought) && other.has_none(reply.sought)) {
            if let Some(refusal) = self.conflict(content, probes) {
                return Some(Err(refusal));
            }
        }
        let there = one.vacancy(None)?;
        let back = other.vacancy((forward.first() == reply.first()).then_some(there))?;
        let number = self.fill_record(content, forward, seen)?;
        let [forward, reply] = entries(probes, number);
        one.fill(there, forward);
        other.fill(back, reply);
        Some(Ok(number))
    }

    /// One attempt under the locks of all four buckets; if there is no empty
    /// slot, tries to make one and says what came of that.
    fn insert_anywhere(
        &self,
        content: &Content<K>,
        probes: &[Probe; 2],
        seen: u32,
    ) -> Result<Result<u32, Refusal>, Room> {
        let [forward, reply] = probes;
        let held = self.index.lock(probes);
        if let Some(refusal) = self.conflict(content, probes) {
            return Ok(Err(refusal));
        }
        let vacancy = |probe: &Probe, taken| {
            let first = self.index.vacancy(probe.first(), taken);
            first.or_else(|| self.index.vacancy(probe.second(), taken))
        };
        let Some(there) = vacancy(forward, None) else {
            drop(held);
            return Err(self.index.make_room(forward, None));
        };
        let Some(back) = vacancy(reply, Some(there)) else {
            drop(held);
            return Err(self.index.make_room(reply, Some(there)));
        };
        self.put(content, probes, [there, back], seen).map(Ok).ok_or(Room::None)
    }

    /// Writes a record and both entries; `None` if no record is free.
    fn put(
        &self,
        content: &Content<K>,
        probes: &[Probe; 2],
        places: [Place; 2],
        seen: u32,
    ) -> Option<u32> {
        let number = self.fill_record(content, &probes[0], seen)?;
        for ((entry, probe), place) in entries(probes, number).into_iter().zip(probes).zip(places) {
            self.index.put(place, probe, entry);
        }
        Some(number)
    }

    /// Takes a record and writes it; `None` if none is free.
    #[inline]
    fn fill_record(&self, content: &Content<K>, forward: &Probe, seen: u32) -> Option<u32> {
        let number = self.free.take(forward.first(), |number| self.link(number))?;
        let record = self.record(number)?;
        self.prefetch_record(self.free.next(forward.first()));
        let proto = content.keys[0].proto;
        record.write(content, record.life().next(TcpState::first(proto, content.forwarding)), seen);
        Some(number)
    }

    /// The connection that already has one of the keys; exact under the locks.
    #[cold]
    #[inline(never)]
    fn conflict(&self, content: &Content<K>, probes: &[Probe; 2]) -> Option<Refusal> {
        let ([forward, reply], [there, back]) = (probes, &content.keys);
        let found = self.index.find_locked(forward, |reference| self.is(reference, there));
        found.map(Refusal::Exists).or_else(|| {
            let found = self.index.find_locked(reply, |reference| self.is(reference, back));
            found.map(Refusal::ReplyConflict)
        })
    }

    #[inline]
    fn link(&self, number: u32) -> Option<&AtomicU32> {
        if number == NIL { None } else { self.record(number).map(Record::link) }
    }

    /// Ends a connection's life, takes its keys out and hands the record to
    /// limbo; its content. Of several callers one gets it.
    pub(crate) fn remove(&self, number: u32) -> Option<Content<K>> {
        let record = self.record(number)?;
        let (life, content) = record.read()?;
        let probes = content.keys.each_ref().map(|key| self.probe(key));
        let held = self.index.lock(&probes);
        end(record, life)?;
        for (probe, direction) in probes.iter().zip(Direction::BOTH) {
            self.index.erase(probe, Reference::new(number, direction));
        }
        drop(held);
        self.removals.fetch_add(1, Ordering::Relaxed);
        self.free.leave(number, |number| self.link(number));
        Some(content)
    }

    /// Gives removed records back that no reader can hold any more; how many.
    pub(crate) fn reclaim(&self, readers: &Readers) -> usize {
        self.free.reclaim(readers, |number| self.link(number))
    }
}

/// What the slots of both keys of connection `number` hold.
#[inline]
const fn entries([forward, reply]: &[Probe; 2], number: u32) -> [Entry; 2] {
    [
        Entry::new(forward.sought, Reference::new(number, Direction::Forward)),
        Entry::new(reply.sought, Reference::new(number, Direction::Reply)),
    ]
}

/// Ends exactly the life that `life` belongs to, in whatever state it is now.
fn end<const K: usize>(record: &Record<K>, life: Life) -> Option<()> {
    let mut now = life;
    loop {
        match record.change_life(now, now.ended()) {
            Ok(()) => return Some(()),
            Err(found) if found.is_live() && found.generation() == life.generation() => now = found,
            Err(_) => return None,
        }
    }
}
