//! The table of one address family: records and their index.
use crate::bucket::Reference;
use crate::hash::KeyedHash;
use crate::index::{Index, Probe, Start};
use crate::key::{Family, Key};
use crate::life::Life;
use crate::memory::{OutOfMemory, Slab};
use crate::path::Room;
use crate::readers::{Limbo, Readers};
use crate::record::{Content, Record};
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
    hash: KeyedHash<K>,
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
        Ok(Self {
            records: Slab::new(records)?,
            index: Index::new(buckets)?,
            hash: KeyedHash::new(seed),
            fresh: AtomicU32::new(0),
            free: Stack::new(),
            limbo: Limbo::new(),
            removals: AtomicU64::new(0),
            full: AtomicU64::new(0),
        })
    }

    pub(crate) fn stats(&self) -> FamilyStats {
        let removals = self.removals.load(Ordering::Relaxed);
        let inserts = self.index.inserted();
        FamilyStats {
            capacity: self.records.len(),
            len: inserts.saturating_sub(removals) as usize,
            memory_bytes: self.records.bytes() + self.index.bytes(),
            inserts,
            removals,
            full: self.full.load(Ordering::Relaxed),
            moves: self.index.moved.load(Ordering::Relaxed),
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
        self.index.probe(self.hash.hash(key))
    }

    #[inline]
    pub(crate) fn start(&self, key: &Key<K>) -> Start {
        self.index.start(self.hash.hash(key))
    }

    #[inline]
    pub(crate) fn index(&self) -> &Index {
        &self.index
    }

    #[inline]
    pub(crate) fn is(&self, reference: Reference, key: &Key<K>) -> bool {
        self.record(reference.record()).is_some_and(|record| record.has(reference.direction(), key))
    }

    #[inline]
    pub(crate) fn lookup(&self, key: &Key<K>) -> Option<Reference> {
        self.index.find(self.probe(key), |reference| self.is(reference, key))
    }

    /// Inserts both keys of a connection or none; its record's number.
    pub(crate) fn insert(&self, content: &Content<K>, seen: u32) -> Result<u32, Refusal> {
        let probes = content.keys.each_ref().map(|key| self.probe(key));
        for probe in &probes {
            self.index.prefetch(probe.first());
            self.index.prefetch(probe.second());
        }
        self.prefetch_record(self.free.top().unwrap_or_else(|| self.used()));
        for _ in 0..ATTEMPTS {
            match self.try_insert(content, &probes, seen) {
                Ok(done) => return done,
                Err(Room::None) => break,
                Err(_) => {}
            }
        }
        self.full.fetch_add(1, Ordering::Relaxed);
        Err(Refusal::Full)
    }

    /// One attempt under the locks of all four buckets; if there is no empty
    /// slot, tries to make one and says what came of that.
    fn try_insert(
        &self,
        content: &Content<K>,
        probes: &[Probe; 2],
        seen: u32,
    ) -> Result<Result<u32, Refusal>, Room> {
        let [forward, reply] = *probes;
        let held = self.index.lock(probes);
        if let Some(refusal) = self.conflict(content, probes) {
            return Ok(Err(refusal));
        }
        let Some(there) = self.index.vacancy(forward, None) else {
            drop(held);
            return Err(self.index.make_room(forward, None));
        };
        let Some(back) = self.index.vacancy(reply, Some(there)) else {
            drop(held);
            return Err(self.index.make_room(reply, Some(there)));
        };
        let Some((number, record)) = self.take_record() else { return Err(Room::None) };
        let proto = content.keys[0].proto;
        record.write(content, record.life().next(TcpState::first(proto, content.forwarding)), seen);
        self.index.put(there, forward, Reference::new(number, Direction::Forward));
        self.index.put(back, reply, Reference::new(number, Direction::Reply));
        held.count();
        Ok(Ok(number))
    }

    /// The connection that already has one of the keys; exact under the locks.
    fn conflict(&self, content: &Content<K>, probes: &[Probe; 2]) -> Option<Refusal> {
        let ([forward, reply], [there, back]) = (probes, &content.keys);
        let found = self.index.find_locked(*forward, |reference| self.is(reference, there));
        found.map(Refusal::Exists).or_else(|| {
            let found = self.index.find_locked(*reply, |reference| self.is(reference, back));
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
        for (probe, direction) in probes.into_iter().zip(Direction::BOTH) {
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
