//! Insertions into the table of one family: both keys of a connection or none;
//! of one whose answers go past the load balancer the forward key alone.
use flow::Direction;

use crate::bucket::{Entry, Reference};
use crate::family::FamilyTable;
use crate::index::{Place, Probe};
use crate::key::{Family, Key};
use crate::locks::Pair;
use crate::path::Room;
use crate::record::Content;
use crate::state::TcpState;
use crate::sync::Ordering;

/// Tries at an insertion that others disturb before it gives up.
const ATTEMPTS: usize = 32;

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

impl<const K: usize> FamilyTable<K>
where
    Key<K>: Family,
{
    /// Where the keys may be. Brings their first buckets closer: nine of ten keys
    /// go there, and nine of ten buckets have had room for all of theirs.
    #[inline]
    pub(crate) fn approach(&self, keys: &[Key<K>; 2]) -> [Probe; 2] {
        let probes = keys.each_ref().map(|key| self.probe(key));
        probes.iter().for_each(|probe| self.index().prefetch_write(probe.first()));
        probes
    }

    /// With the first buckets at hand, brings the second ones closer, if they
    /// will be needed.
    #[inline]
    pub(crate) fn approach_further(&self, probes: &[Probe; 2]) {
        for probe in probes {
            let first = self.index().bucket(probe.first());
            if first.has_spilled() || first.vacancy(None).is_none() {
                self.index().prefetch(probe.second());
            }
        }
    }

    /// Inserts both keys of a connection or none; its record's number.
    #[inline]
    pub(crate) fn insert(&self, content: &Content<K>, seen: u32) -> Result<u32, Refusal> {
        let state = TcpState::first(content.keys[0].proto, content.forwarding);
        self.insert_as(content, &self.approach(&content.keys), Born { state, seen })
    }

    /// As [`Self::insert`], where [`Self::approach`] said, and for a connection whose
    /// life begins as `born` says.
    #[inline]
    pub(crate) fn insert_as(
        &self,
        content: &Content<K>,
        probes: &[Probe; 2],
        born: Born,
    ) -> Result<u32, Refusal> {
        let done = if content.is_one_way() {
            self.insert_one_way(content, &probes[0], born)
        } else {
            self.insert_first(content, probes, born)
        };
        done.unwrap_or_else(|| self.insert_elsewhere(content, probes, born))
    }

    /// Into any of the four buckets, with room made there if need be.
    #[cold]
    #[inline(never)]
    fn insert_elsewhere(
        &self,
        content: &Content<K>,
        probes: &[Probe; 2],
        born: Born,
    ) -> Result<u32, Refusal> {
        for _ in 0..ATTEMPTS {
            match self.insert_anywhere(content, probes, born) {
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
        let buckets = [self.index().bucket(forward.first()), self.index().bucket(reply.first())];
        let [one, other] = buckets;
        let _held = Pair::lock(one, other);
        if !(one.has_none(forward.sought) && other.has_none(reply.sought)) {
            if let Some(refusal) = self.conflict(content, probes) {
                return Some(Err(refusal));
            }
        }
        let there = one.vacancy(None)?;
        let back = other.vacancy((forward.first() == reply.first()).then_some(there))?;
        let number = self.fill_record(content, forward, born)?;
        let [forward, reply] = entries(probes, number);
        one.fill(there, forward);
        other.fill(back, reply);
        Some(Ok(number))
    }

    /// The same of the forward key alone.
    fn insert_one_way(
        &self,
        content: &Content<K>,
        probe: &Probe,
        born: Born,
    ) -> Option<Result<u32, Refusal>> {
        let bucket = self.index().bucket(probe.first());
        let _held = Pair::lock(bucket, bucket);
        if !bucket.has_none(probe.sought) {
            let key = &content.keys[0];
            let found = self.index().find_locked(probe, |reference| self.is(reference, key));
            if let Some(found) = found {
                return Some(Err(Refusal::Exists(found)));
            }
        }
        let slot = bucket.vacancy(None)?;
        let number = self.fill_record(content, probe, born)?;
        bucket.fill(slot, Entry::new(probe.sought, Reference::new(number, Direction::Forward)));
        Some(Ok(number))
    }

    /// One attempt under the locks of all four buckets; if there is no empty
    /// slot, it tries to make one and returns the outcome.
    fn insert_anywhere(
        &self,
        content: &Content<K>,
        probes: &[Probe; 2],
        born: Born,
    ) -> Result<Result<u32, Refusal>, Room> {
        let [forward, reply] = probes;
        let held = self.index().lock(probes);
        if let Some(refusal) = self.conflict(content, probes) {
            return Ok(Err(refusal));
        }
        let vacancy = |probe: &Probe, taken| {
            let first = self.index().vacancy(probe.first(), taken);
            first.or_else(|| self.index().vacancy(probe.second(), taken))
        };
        let Some(there) = vacancy(forward, None) else {
            drop(held);
            return Err(self.index().make_room(forward, None));
        };
        if content.is_one_way() {
            return self.put(content, probes, &[there], born).map(Ok).ok_or(Room::None);
        }
        let Some(back) = vacancy(reply, Some(there)) else {
            drop(held);
            return Err(self.index().make_room(reply, Some(there)));
        };
        self.put(content, probes, &[there, back], born).map(Ok).ok_or(Room::None)
    }

    /// Writes a record and an entry at each place; `None` if no record is free.
    fn put(
        &self,
        content: &Content<K>,
        probes: &[Probe; 2],
        places: &[Place],
        born: Born,
    ) -> Option<u32> {
        let number = self.fill_record(content, &probes[0], born)?;
        for ((entry, probe), place) in entries(probes, number).into_iter().zip(probes).zip(places) {
            self.index().put(*place, probe, entry);
        }
        Some(number)
    }

    /// Takes a record and writes it; `None` if none is free.
    #[inline]
    fn fill_record(&self, content: &Content<K>, forward: &Probe, born: Born) -> Option<u32> {
        let number = self.free.take(forward.first(), |number| self.link(number))?;
        let record = self.record(number)?;
        self.prefetch_free(self.free.next(forward.first()));
        let life = record.life().next(born.state, content.is_one_way());
        record.write(content, life, born.seen);
        Some(number)
    }

    /// The connection that already has one of the keys; exact under the locks.
    #[cold]
    #[inline(never)]
    fn conflict(&self, content: &Content<K>, probes: &[Probe; 2]) -> Option<Refusal> {
        let ([forward, reply], [there, back]) = (probes, &content.keys);
        let found = self.index().find_locked(forward, |reference| self.is(reference, there));
        if content.is_one_way() {
            return found.map(Refusal::Exists);
        }
        found.map(Refusal::Exists).or_else(|| {
            let found = self.index().find_locked(reply, |reference| self.is(reference, back));
            found.map(Refusal::ReplyConflict)
        })
    }
}

/// What the slots of both keys of connection `number` hold.
#[inline]
pub(crate) const fn entries([forward, reply]: &[Probe; 2], number: u32) -> [Entry; 2] {
    [
        Entry::new(forward.sought, Reference::new(number, Direction::Forward)),
        Entry::new(reply.sought, Reference::new(number, Direction::Reply)),
    ]
}
