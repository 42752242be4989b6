//! A bucket of the index: one cache line of slots, and what a slot says.
use service::Direction;

use crate::memory::{upper_halves, upper_halves_of_one};
use crate::sync::{AtomicU64, Ordering};

/// Slots in a bucket: a cache line's worth; few under loom, whose cost grows
/// with every access.
pub(crate) const SLOTS: usize = if cfg!(loom) { 2 } else { 8 };

/// One cache line of slots.
#[derive(Debug)]
#[repr(C, align(64))]
pub(crate) struct Bucket {
    pub(crate) slots: [AtomicU64; SLOTS],
}

/// What a slot holds: one word, so that it is always read whole.
///
/// From the top: 1 bit "occupied", 31 bits tag (hash bits other than those
/// that chose the bucket), 1 bit direction, 31 bits record number. Zero is the
/// empty slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Entry(u64);

/// What a slot says about its connection: direction and record number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Reference(u32);

const OCCUPIED: u64 = 1 << 63;
const OCCUPIED_HALF: u32 = (OCCUPIED >> 32) as u32;
const REPLY: u32 = 1 << 31;

impl Reference {
    /// To no record: the largest table has a record less (`config::MOST`).
    pub(crate) const NONE: Self = Self(u32::MAX);

    pub(crate) const fn new(record: u32, direction: Direction) -> Self {
        match direction {
            Direction::Forward => Self(record & !REPLY),
            Direction::Reply => Self(record | REPLY),
        }
    }

    #[inline]
    pub(crate) const fn record(self) -> u32 {
        self.0 & !REPLY
    }

    #[inline]
    pub(crate) const fn direction(self) -> Direction {
        if self.0 & REPLY == 0 { Direction::Forward } else { Direction::Reply }
    }
}

impl Entry {
    pub(crate) const EMPTY: Self = Self(0);

    /// `tag` has 31 bits.
    pub(crate) const fn new(tag: u32, reference: Reference) -> Self {
        Self(OCCUPIED | (tag as u64) << 32 | reference.0 as u64)
    }

    pub(crate) const fn is_empty(self) -> bool {
        self.0 == 0
    }

    pub(crate) const fn tag(self) -> u32 {
        (self.0 >> 32) as u32 & !REPLY
    }

    /// The entry's reference, if it is occupied and has this tag.
    #[inline]
    fn tagged(self, tag: u32) -> Option<Reference> {
        ((self.0 >> 32) as u32 == OCCUPIED_HALF | tag).then_some(Reference(self.0 as u32))
    }
}

impl Bucket {
    /// No entries. Equal to zero bytes.
    #[cfg(loom)]
    pub(crate) fn empty() -> Self {
        Self { slots: std::array::from_fn(|_| AtomicU64::new(0)) }
    }

    /// What slot number `slot` holds. Acquire: who finds an entry sees the
    /// record that was written before the entry was.
    #[inline]
    pub(crate) fn load(&self, slot: usize) -> Entry {
        self.slots.get(slot).map_or(Entry::EMPTY, |word| Entry(word.load(Ordering::Acquire)))
    }

    /// Writes a slot. Only under the lock of this bucket. Release: see `load`.
    pub(crate) fn store(&self, slot: usize, entry: Entry) {
        if let Some(word) = self.slots.get(slot) {
            word.store(entry.0, Ordering::Release);
        }
    }

    /// All slots' entries, each read once.
    pub(crate) fn entries(&self) -> impl Iterator<Item = Entry> + '_ {
        self.slots.iter().map(|word| Entry(word.load(Ordering::Acquire)))
    }

    /// Everything that carries `tag`. Tags of 31 bits seldom lie: rarely more
    /// than one, and then only one of them has the key.
    pub(crate) fn tagged(&self, tag: u32) -> impl Iterator<Item = Reference> + '_ {
        self.entries().filter_map(move |entry| entry.tagged(tag))
    }

    /// Which slots carry `tag`, as bits, those of `second` above this one's. A
    /// hint: of slots that are being written now it may be wrong; under the
    /// buckets' locks it is right.
    #[inline]
    pub(crate) fn tag_mask(&self, second: &Self, tag: u32) -> u32 {
        upper_halves(self, second, OCCUPIED_HALF | tag)
    }

    /// What this bucket's slot with `tag` refers to, or [`Reference::NONE`], as
    /// near as a hint can tell; without a branch.
    #[inline]
    pub(crate) fn hint(&self, tag: u32) -> Reference {
        let mask = upper_halves_of_one(self, OCCUPIED_HALF | tag);
        let entry = self.load(mask.trailing_zeros() as usize % SLOTS);
        if mask == 0 { Reference::NONE } else { Reference(entry.0 as u32) }
    }

    /// Which slots are empty, likewise.
    #[inline]
    pub(crate) fn empty_mask(&self, second: &Self) -> u32 {
        upper_halves(self, second, 0)
    }

    /// Which slots of this bucket are empty. Reads every slot once, so even
    /// without the lock it names none that is not a slot's.
    #[inline]
    pub(crate) fn own_empty_mask(&self) -> u32 {
        upper_halves_of_one(self, 0)
    }

    /// What slot `slot` refers to, if it carries `tag`.
    #[inline]
    pub(crate) fn reference(&self, slot: usize, tag: u32) -> Option<Reference> {
        self.load(slot % SLOTS).tagged(tag)
    }
}
