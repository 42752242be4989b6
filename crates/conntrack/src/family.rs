//! The table of one address family: records and their index.
use crate::bucket::{Reference, Sought};
use crate::hash::Digest;
use crate::index::{Index, Place, Probe};
use crate::key::{Family, Key};
use crate::life::Life;
use crate::memory::{OutOfMemory, Slab};
use crate::path::Room;
use crate::readers::{Limbo, Readers};
use crate::record::{Content, Record};
use crate::seed::KeyStream;
use crate::stack::{NIL, Stack};
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
    /// Records from this number on were never used, nor their memory touched.
    fresh: AtomicU32,
    free: Stack,
    limbo: Limbo,
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

/// How a connection's life begins.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Born {
    pub(crate) state: TcpState,
    /// When its first packet was seen, in ticks.
    pub(crate) seen: u32,
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
            fresh: AtomicU32::new(0),
            free: Stack::new(),
            limbo: Limbo::new(),
            removals: AtomicU64::new(0),
            full: AtomicU64::new(0),
        })
    }

    pub(crate) fn stats(&self) -> FamilyStats {
        let removals = self.removals.load(Ordering::Relaxed);
        // Every insertion takes a record, a fresh one or one off the stack.
        // Modulo 2^32; below zero if others remove meanwhile.
        let taken = self.used().wrapping_add(self.free.pops());
        let len = (taken.wrapping_sub(removals as u32) as i32).max(0) as u32;
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
        self.fresh.load(Ordering::Acquire)
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

    /// The entry of `key`; `None` means nothing.
    #[inline]
    pub(crate) fn glance(&self, key: &Key<K>) -> Option<Reference> {
        let moved = self.index.moved();
        let found = self.index.guess(self.sought(key))?;
        (self.seems(found, key) && self.index.still(moved)).then_some(found)
    }

    /// As [`Self::glance`], by the record, and `None` means that at one moment
    /// during the call the key was not there.
    #[cold]
    pub(crate) fn lookup(&self, key: &Key<K>) -> Option<Reference> {
        self.index.find_surely(&self.probe(key), |reference| self.is(reference, key))
    }

    /// Brings both buckets of a key closer.
    #[inline]
    pub(crate) fn prefetch(&self, key: &Key<K>) {
        self.index.prefetch_both(&self.probe(key));
    }

    /// Whether no record is free; counts that as a refusal.
    #[inline]
    pub(crate) fn refuses(&self) -> bool {
        let full = self.free.top().is_none() && self.used() as usize >= self.records.len();
        if full {
            self.full.fetch_add(1, Ordering::Relaxed);
        }
        full
    }

    /// Inserts both keys of a connection or none; its record's number.
    pub(crate) fn insert(&self, content: &Content<K>, seen: u32) -> Result<u32, Refusal> {
        let state = TcpState::first(content.keys[0].proto, content.forwarding);
        self.insert_as(content, Born { state, seen })
    }

    /// The same for a connection whose life begins as `born` says.
    pub(crate) fn insert_as(&self, content: &Content<K>, born: Born) -> Result<u32, Refusal> {
        let probes = content.keys.each_ref().map(|key| self.probe(key));
        probes.iter().for_each(|probe| self.index.prefetch_both(probe));
        self.prefetch_record(self.free.top().unwrap_or_else(|| self.used()));
        if let Some(done) = self.insert_first(content, &probes, born) {
            return done;
        }
        for _ in 0..ATTEMPTS {
            match self.insert_anywhere(content, &probes, born) {
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
        born: Born,
    ) -> Option<Result<u32, Refusal>> {
        let [forward, reply] = probes;
        let _held = self.index.lock_first(probes);
        if let Some(refusal) = self.conflict(content, probes) {
            return Some(Err(refusal));
        }
        let there = self.index.vacancy(forward.first(), None)?;
        let back = self.index.vacancy(reply.first(), Some(there))?;
        self.put(content, probes, [there, back], born).map(Ok)
    }

    /// One attempt under the locks of all four buckets; if there is no empty
    /// slot, tries to make one and says what came of that.
    #[cold]
    fn insert_anywhere(
        &self,
        content: &Content<K>,
        probes: &[Probe; 2],
        born: Born,
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
        self.put(content, probes, [there, back], born).map(Ok).ok_or(Room::None)
    }

    /// Writes a record and both entries; `None` if no record is free.
    #[inline]
    fn put(
        &self,
        content: &Content<K>,
        [forward, reply]: &[Probe; 2],
        [there, back]: [Place; 2],
        born: Born,
    ) -> Option<u32> {
        let (number, record) = self.take_record()?;
        record.write(content, record.life().next(born.state), born.seen);
        self.index.put(there, forward.sought, Reference::new(number, Direction::Forward));
        self.index.put(back, reply.sought, Reference::new(number, Direction::Reply));
        Some(number)
    }

    /// The connection that already has one of the keys; exact under the locks.
    #[inline]
    fn conflict(&self, content: &Content<K>, probes: &[Probe; 2]) -> Option<Refusal> {
        let ([forward, reply], [there, back]) = (probes, &content.keys);
        let found = self.index.find_locked(forward, |reference| self.is(reference, there));
        found.map(Refusal::Exists).or_else(|| {
            let found = self.index.find_locked(reply, |reference| self.is(reference, back));
            found.map(Refusal::ReplyConflict)
        })
    }

    fn take_record(&self) -> Option<(u32, &Record<K>)> {
        let number = self.free.pop(|number| self.link(number)).or_else(|| self.take_fresh())?;
        Some((number, self.record(number)?))
    }

    fn take_fresh(&self) -> Option<u32> {
        let next = |fresh| ((fresh as usize) < self.records.len()).then_some(fresh + 1);
        self.fresh.fetch_update(Ordering::AcqRel, Ordering::Acquire, next).ok()
    }

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
        self.limbo.push(number, |number| self.link(number));
        Some(content)
    }

    /// Gives removed records back that no reader can hold any more; how many.
    pub(crate) fn reclaim(&self, readers: &Readers) -> usize {
        self.limbo.reclaim(readers, &self.free, |number| self.link(number))
    }
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
