//! The match table: open addressing with two places for each key, in memory that the
//! program reads while this process writes.
use std::sync::atomic::{AtomicU64, Ordering, fence};

use mapped::Mapped;

use crate::action::{self, Action};
use crate::actions::Actions;
use crate::entry::{Key, WORDS};

/// Entries that a search for room looks at.
const SEARCHED: usize = 512;

/// What the program counted for one entry.
///
/// The program adds without atomics, since a direction's packets come by one queue; it
/// may add one packet to the entry's successor if the entry is removed at that moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Count {
    /// Packets forwarded.
    pub packets: u64,
    /// Bytes of their frames.
    pub bytes: u64,
}

impl Count {
    /// Both together.
    pub(crate) const fn plus(self, other: Self) -> Self {
        Self { packets: self.packets + other.packets, bytes: self.bytes + other.bytes }
    }
}

/// There is no room for another entry or another action.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the match table is full")]
pub struct Full;

/// The entries and actions of one program. It is the only writer.
#[derive(Debug)]
pub struct Table {
    entries: Mapped,
    actions: Mapped,
    used: Actions,
    seed: u64,
    slots: u32,
    len: u32,
}

impl Table {
    /// The empty table in these mappings, which are all zero.
    pub(crate) fn new(
        entries: Mapped,
        actions: Mapped,
        seed: u64,
        [slots, kinds]: [u32; 2],
    ) -> Self {
        Self { entries, actions, used: Actions::new(kinds), seed, slots, len: 0 }
    }

    /// Entries in the table.
    #[must_use]
    pub const fn len(&self) -> u32 {
        self.len
    }

    /// Whether there is no entry.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Entries that the table takes: two fifths of its places, below the half at which
    /// two places per key stop to suffice.
    #[must_use]
    pub const fn capacity(&self) -> u32 {
        (self.slots as u64 * 2 / 5) as u32
    }

    /// Forwards packets of `key` by `action` from now on. A key that is there gets the
    /// new action and keeps its count.
    ///
    /// # Errors
    /// [`Full`]; nothing has changed then.
    pub fn insert(&mut self, key: &Key, action: &Action) -> Result<(), Full> {
        self.insert_words(key, action.words())
    }

    /// As [`insert`](Self::insert), with the action's words.
    pub(crate) fn insert_words(
        &mut self,
        key: &Key,
        words: [u64; action::WORDS],
    ) -> Result<(), Full> {
        let places = self.places(key);
        let place = self.find_in(places, key);
        if place.is_none() && self.len >= self.capacity() {
            return Err(Full);
        }
        let index = self.used.take(words, self.actions.words()).ok_or(Full)?;
        if let Some(place) = place {
            let before = self.action_in(place);
            self.write(place, key, index, self.count_in(place));
            self.used.release(before);
            return Ok(());
        }
        self.put(places, key, index).inspect_err(|_| self.used.release(index))
    }

    /// The place of an action for one more user.
    pub(crate) fn take_action(&mut self, action: &Action) -> Result<u32, Full> {
        self.used.take(action.words(), self.actions.words()).ok_or(Full)
    }

    /// One user of an action fewer.
    pub(crate) fn release_action(&mut self, index: u32) {
        self.used.release(index);
    }

    /// Gives the key a value that is not an action's place. The key must be a mark's.
    pub(crate) fn mark(&mut self, key: &Key, value: u32) -> Result<(), Full> {
        let places = self.places(key);
        match self.find_in(places, key) {
            Some(place) => self.write(place, key, value, Count::default()),
            None if self.len >= self.capacity() => return Err(Full),
            None => self.put(places, key, value)?,
        }
        Ok(())
    }

    /// Takes a mark away; false if there was none.
    pub(crate) fn unmark(&mut self, key: &Key) -> bool {
        let Some(place) = self.find(key) else { return false };
        self.clear(place);
        self.len -= 1;
        true
    }

    /// Writes an entry for a key that has none.
    fn put(&mut self, places: [u32; 2], key: &Key, index: u32) -> Result<(), Full> {
        let free = places.into_iter().find(|place| self.key_in(*place).is_none());
        let place = free.or_else(|| self.room(places)).ok_or(Full)?;
        self.write(place, key, index, Count::default());
        self.len += 1;
        Ok(())
    }

    /// Lets packets of `key` go up again, and says what was counted; `None` if there
    /// is no such entry.
    pub fn remove(&mut self, key: &Key) -> Option<Count> {
        let place = self.find(key)?;
        let (count, action) = (self.count_in(place), self.action_in(place));
        self.clear(place);
        self.used.release(action);
        self.len -= 1;
        Some(count)
    }

    /// What the program has counted for `key`; `None` if there is no such entry.
    #[must_use]
    pub fn count(&self, key: &Key) -> Option<Count> {
        self.find(key).map(|place| self.count_in(place))
    }

    fn places(&self, key: &Key) -> [u32; 2] {
        key.places(self.seed, self.slots)
    }

    fn find(&self, key: &Key) -> Option<u32> {
        self.find_in(self.places(key), key)
    }

    fn find_in(&self, places: [u32; 2], key: &Key) -> Option<u32> {
        places.into_iter().find(|place| self.key_in(*place) == Some(*key))
    }

    /// Frees one of `places`, which are both taken: entries are moved to their other
    /// places, along the shortest way to a free one.
    fn room(&self, places: [u32; 2]) -> Option<u32> {
        // Places found, and by which of them: an entry there can go on to its other place.
        let mut found: Vec<(u32, Option<usize>)> = Vec::with_capacity(SEARCHED);
        found.extend(places.map(|place| (place, None)));
        let mut next = 0;
        while let Some(&(place, _)) = found.get(next) {
            let Some(other) = self.key_in(place) else {
                return self.make_way(&found, next);
            };
            if found.len() < SEARCHED {
                for to in self.places(&other) {
                    if found.iter().all(|(known, _)| *known != to) {
                        found.push((to, Some(next)));
                    }
                }
            }
            next += 1;
        }
        None
    }

    /// Moves the entries on the way to the free place `found[last]`, from its end on,
    /// and returns the place that is free then.
    fn make_way(&self, found: &[(u32, Option<usize>)], last: usize) -> Option<u32> {
        let &(mut free, mut before) = found.get(last)?;
        while let Some(&(place, further)) = before.and_then(|index| found.get(index)) {
            let key = self.key_in(place)?;
            // For a moment the entry is in both places, so no packet misses it
            // unless its lookup lies across both writes: then it goes up.
            self.write(free, &key, self.action_in(place), self.count_in(place));
            self.clear(place);
            (free, before) = (place, further);
        }
        Some(free)
    }

    fn words_in(&self, place: u32) -> Option<&[AtomicU64; WORDS]> {
        self.entries.words().get(place as usize * WORDS..)?.first_chunk()
    }

    fn key_in(&self, place: u32) -> Option<Key> {
        let [_, _, _, key @ ..] = self.words_in(place)?;
        let key = Key(key.each_ref().map(|word| word.load(Ordering::Relaxed)));
        (key.0[4] != 0).then_some(key)
    }

    fn action_in(&self, place: u32) -> u32 {
        let version = self.words_in(place).map(|words| words[0].load(Ordering::Relaxed));
        (version.unwrap_or_default() >> 32) as u32
    }

    fn count_in(&self, place: u32) -> Count {
        let Some([_, packets, bytes, ..]) = self.words_in(place) else { return Count::default() };
        Count { packets: packets.load(Ordering::Relaxed), bytes: bytes.load(Ordering::Relaxed) }
    }

    fn clear(&self, place: u32) {
        self.write(place, &Key([0; 5]), 0, Count::default());
    }

    /// Replaces an entry while the program may read it: its version is odd meanwhile.
    fn write(&self, place: u32, key: &Key, action: u32, count: Count) {
        let Some(words) = self.words_in(place) else { return };
        let [version, packets, bytes, to @ ..] = words;
        let before = version.load(Ordering::Relaxed);
        version.store(before | 1, Ordering::Relaxed);
        fence(Ordering::Release);
        for (to, from) in to.iter().zip(key.0) {
            to.store(from, Ordering::Relaxed);
        }
        packets.store(count.packets, Ordering::Relaxed);
        bytes.store(count.bytes, Ordering::Relaxed);
        let sequence = (before as u32).wrapping_add(2);
        version.store(u64::from(action) << 32 | u64::from(sequence), Ordering::Release);
    }
}
