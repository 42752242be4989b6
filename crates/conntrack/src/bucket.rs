//! A bucket of the index: one cache line of slots, and what a slot says.
//!
//! A slot is two words and holds a key: addresses, ports and protocol of an
//! IPv4 5-tuple, whole; of an IPv6 one, a keyed digest of the addresses. A
//! slot is written only under its bucket's lock, which is a bit of the first
//! slot. Readers take no lock. The words of an occupied slot never change, and
//! an occupation begins with the addresses' word and ends with the other's
//! becoming empty, so a reader that finds the other word the same before and after
//! reading the addresses has read words of one occupation ([`Slot::compare`]).
//!
//! A bucket also says whether keys whose first bucket it is are in their second
//! one: "spilled", and how many. Where nothing has spilled a lookup ends there.
use flow::Direction;
use wire::Transport;

use crate::memory::vector::{Wide, empty, matches, matches_in};
use crate::sync::{AtomicU64, Ordering, fence, spin_loop, yield_now};

/// Slots in a bucket: a cache line's worth; few under loom, whose cost grows
/// with every access.
pub(crate) const SLOTS: usize = if cfg!(loom) { 2 } else { 4 };

/// One cache line of slots.
#[derive(Debug)]
#[repr(C, align(64))]
pub(crate) struct Bucket {
    pub(crate) slots: [Slot; SLOTS],
}

/// A place for a key and what it refers to. Zero is the empty slot.
#[derive(Debug)]
#[repr(C, align(16))]
pub(crate) struct Slot {
    /// Source and destination address, or what stands for them.
    pub(crate) addresses: AtomicU64,
    /// From the top: 1 bit "occupied", 1 bit of the bucket's, 1 bit "UDP", 1 bit
    /// of the bucket's, 1 bit direction, 27 bits record number, 32 bits ports.
    /// The bucket's are "locked" and "spilled" in the first slot, in the others
    /// digits of how many have spilled.
    pub(crate) rest: AtomicU64,
}

/// What a slot with a certain key has in its words.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub(crate) struct Sought {
    pub(crate) addresses: u64,
    /// With zeros where a slot has its reference.
    pub(crate) rest: u64,
}

/// What a slot holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    addresses: u64,
    rest: u64,
}

/// What a slot says about its connection: direction and record number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Reference(u32);

/// The sign, for vector instructions.
const OCCUPIED: u64 = 1 << 63;
const LOCKED: u64 = 1 << 62;
const UDP: u64 = 1 << 61;
const SPILLED: u64 = 1 << 60;
/// What belongs to the bucket, whatever is in the slot. After the first slot
/// two digits each of how many have spilled, less one.
const BUCKET: u64 = LOCKED | SPILLED;
/// What belongs to the key, and that there is one.
const KEY: u64 = OCCUPIED | UDP | u32::MAX as u64;

/// In a reference.
const REPLY: u32 = 1 << 27;

/// Most spilled keys that are counted; whether a bucket that has had so many
/// still has some can't be told any more.
/// With full buckets, and so many more keys at one than fit, that doesn't
/// happen by chance.
const MOST_SPILLED: u32 = 1 << (2 * (SLOTS - 1));

/// Tries at a taken lock before the thread offers its core to others. Holders
/// hold a lock for some hundred nanoseconds, so this is reached only if the
/// holder itself was put to sleep.
const SPINS: u32 = 200;

impl Reference {
    /// To no record: the largest table has a record less (`config::MOST`).
    pub(crate) const NONE: Self = Self(REPLY - 1);

    /// To record `record`; [`Self::NONE`] if no table has so many.
    #[inline]
    pub(crate) const fn new(record: u32, direction: Direction) -> Self {
        if record >= REPLY {
            return Self::NONE;
        }
        match direction {
            Direction::Forward => Self(record),
            Direction::Reply => Self(record | REPLY),
        }
    }

    #[inline]
    const fn of(rest: u64) -> Self {
        Self((rest >> 32) as u32 & (REPLY | (REPLY - 1)))
    }

    #[inline]
    pub(crate) const fn record(self) -> u32 {
        self.0 & (REPLY - 1)
    }

    #[inline]
    pub(crate) const fn direction(self) -> Direction {
        if self.0 & REPLY == 0 { Direction::Forward } else { Direction::Reply }
    }
}

impl Sought {
    #[inline]
    pub(crate) fn new(addresses: u64, ports: u32, proto: Transport) -> Self {
        // 6 or 17: the lowest bit tells them apart.
        let udp = u64::from(proto.number() & 1) * UDP;
        Self { addresses, rest: OCCUPIED | udp | u64::from(ports) }
    }
}

impl Entry {
    pub(crate) const EMPTY: Self = Self { addresses: 0, rest: 0 };

    #[inline]
    pub(crate) const fn new(sought: Sought, reference: Reference) -> Self {
        Self { addresses: sought.addresses, rest: sought.rest | (reference.0 as u64) << 32 }
    }

    pub(crate) const fn is_empty(self) -> bool {
        self.rest & OCCUPIED == 0
    }

    /// The key, as it is sought.
    #[inline]
    pub(crate) const fn sought(self) -> Sought {
        Sought { addresses: self.addresses, rest: self.rest & KEY }
    }
}

impl Slot {
    /// What the slot refers to, and whether it holds the key `sought`.
    ///
    /// Why no two occupations mix: (1) `before` is acquired, so the addresses
    /// read are at least those written before it. (2) If they are a later
    /// occupation's, they were written with release after the earlier one's
    /// end, and the fence lets `after` see that end. (3) So a mixture goes
    /// unnoticed only if `after` is yet another occupation, with the same
    /// reference and ports as the first: of the same connection, since records
    /// are not reused under a reader, which was moved away and back. Moves are
    /// counted, and the callers of this look at the count.
    #[inline]
    fn compare(&self, sought: Sought) -> (Reference, bool) {
        let before = self.rest.load(Ordering::Acquire);
        let addresses = self.addresses.load(Ordering::Relaxed);
        fence(Ordering::Acquire);
        let after = self.rest.load(Ordering::Relaxed);
        let other = (addresses ^ sought.addresses)
            | (before ^ sought.rest) & KEY
            | (before ^ after) & !BUCKET;
        (Reference::of(before), other == 0)
    }
}

impl Bucket {
    /// No entries. Equal to zero bytes.
    #[cfg(loom)]
    pub(crate) fn empty() -> Self {
        let slot = |_| Slot { addresses: AtomicU64::new(0), rest: AtomicU64::new(0) };
        Self { slots: std::array::from_fn(slot) }
    }

    /// What slot number `slot` holds: exact under the lock; otherwise it may be
    /// a mixture.
    #[inline]
    pub(crate) fn load(&self, slot: usize) -> Entry {
        let Some(slot) = self.slots.get(slot) else { return Entry::EMPTY };
        let rest = slot.rest.load(Ordering::Acquire) & !BUCKET;
        if rest & OCCUPIED == 0 {
            return Entry::EMPTY;
        }
        Entry { addresses: slot.addresses.load(Ordering::Relaxed), rest }
    }

    /// Fills an empty slot. Only under the lock. Both stores release: the first
    /// what ended the slot's last occupation (see [`Slot::compare`]), the
    /// second the first, and the record that the entry refers to.
    #[inline]
    pub(crate) fn fill(&self, slot: usize, entry: Entry) {
        if let Some(place) = self.slots.get(slot) {
            let own = place.rest.load(Ordering::Relaxed) & BUCKET;
            place.addresses.store(entry.addresses, Ordering::Release);
            place.rest.store(entry.rest | own, Ordering::Release);
        }
    }

    /// Empties a slot. Only under the lock. Releases the count of the move, if
    /// it is one.
    #[inline]
    pub(crate) fn clear(&self, slot: usize) {
        if let Some(place) = self.slots.get(slot) {
            let own = place.rest.load(Ordering::Relaxed) & BUCKET;
            place.rest.store(own, Ordering::Release);
        }
    }

    /// What the slots that hold `sought` refer to. Two keys of IPv6 may look
    /// the same here; of IPv4 never.
    pub(crate) fn matching(&self, sought: Sought) -> impl Iterator<Item = Reference> + '_ {
        let compared = self.slots.iter().map(move |slot| slot.compare(sought));
        compared.filter_map(|(reference, same)| same.then_some(reference))
    }

    /// Compares slot number `slot` modulo their number.
    #[inline]
    fn compare(&self, slot: usize, sought: Sought) -> (Reference, bool) {
        self.slots.get(slot % SLOTS).map_or((Reference::NONE, false), |slot| slot.compare(sought))
    }

    /// What one of two buckets' slots refers to, whether it holds `sought`, and
    /// whether none has held it all the time. Which to look at is a hint, by
    /// comparing all of them at once. Which of the two has a key can't be
    /// predicted, so there is no branch between.
    #[inline]
    pub(crate) fn either(&self, second: &Self, sought: Sought) -> (Reference, bool, bool) {
        let mask = matches(self, second, sought);
        let slot = mask.trailing_zeros() as usize / 4;
        let bucket = if slot < SLOTS { self } else { second };
        let (reference, same) = bucket.compare(slot, sought);
        (reference, same, mask == 0)
    }

    /// The same of this bucket alone, in words that don't tempt the compiler to
    /// branch: a reference, and whether it is one to `sought`.
    #[inline]
    pub(crate) fn own(&self, sought: Sought) -> (Reference, bool) {
        self.compare(matches_in(self, sought).trailing_zeros() as usize / 4, sought)
    }

    /// Where `entry` is. Only under the lock.
    pub(crate) fn slot_of(&self, entry: Entry) -> Option<usize> {
        (0..SLOTS).find(|&slot| self.load(slot) == entry)
    }

    /// Whether a key whose first bucket this is is nowhere, most likely the case
    /// for one that is to be inserted. Exact under the lock.
    #[inline]
    pub(crate) fn has_none(&self, sought: Sought) -> bool {
        self.lacks(sought) && !self.has_spilled()
    }

    /// Whether no slot has held `sought` all the time.
    #[inline]
    pub(crate) fn lacks(&self, sought: Sought) -> bool {
        matches_in(self, sought) == 0
    }

    /// The same, by the vector instructions that `by` stands for.
    #[inline(always)]
    pub(crate) fn own_by(&self, by: impl Wide, sought: &Sought) -> (Reference, bool) {
        self.compare(by.matches(self, sought).trailing_zeros() as usize / 4, *sought)
    }

    /// The first empty slot, other than `taken`. Exact under the lock.
    #[inline]
    pub(crate) fn vacancy(&self, taken: Option<usize>) -> Option<usize> {
        let taken = taken.map_or(0, |slot| 1 << (4 * slot));
        let mask = empty(self) & !taken;
        (mask != 0).then(|| mask.trailing_zeros() as usize / 4)
    }

    /// Whether a key whose first bucket this is may be in its second. For the
    /// holder of the lock, and for readers that find that nothing has moved: set
    /// before such a key is in its second bucket, and not cleared before it has
    /// left it.
    #[inline]
    pub(crate) fn has_spilled(&self) -> bool {
        let [slot, ..] = &self.slots;
        slot.rest.load(Ordering::Relaxed) & SPILLED != 0
    }

    /// How many keys have spilled, [`MOST_SPILLED`] for so many or more. Exact
    /// under the lock.
    pub(crate) fn spilled(&self) -> u32 {
        let [_, others @ ..] = &self.slots;
        if !self.has_spilled() {
            return 0;
        }
        let digits = |slot: &Slot| {
            let rest = slot.rest.load(Ordering::Relaxed);
            (rest >> 61 & 2 | rest >> 60 & 1) as u32
        };
        others.iter().fold(0, |all, slot| all << 2 | digits(slot)) + 1
    }

    /// Only under the lock. Release: a reader that finds that a key has left its second
    /// bucket finds the count of that move, too.
    fn set_spilled(&self, count: u32) {
        let [first, others @ ..] = &self.slots;
        let set = |slot: &Slot, bits: u64| {
            let rest = slot.rest.load(Ordering::Relaxed) & !BUCKET;
            slot.rest.store(rest | bits, Ordering::Release);
        };
        set(first, if count == 0 { LOCKED } else { LOCKED | SPILLED });
        let mut digits = u64::from(count.saturating_sub(1));
        for slot in others.iter().rev() {
            set(slot, (digits & 2) << 61 | (digits & 1) << 60);
            digits >>= 2;
        }
    }

    /// A key is about to be in its second bucket, this being its first. Only
    /// under the lock.
    pub(crate) fn spill(&self) {
        self.set_spilled((self.spilled() + 1).min(MOST_SPILLED));
    }

    /// One is no longer. Only under the lock.
    pub(crate) fn unspill(&self) {
        let count = self.spilled();
        if count < MOST_SPILLED {
            self.set_spilled(count.saturating_sub(1));
        }
    }

    /// Takes the lock. No other thread writes the slots until [`Self::unlock`].
    #[inline]
    pub(crate) fn lock(&self) {
        let [slot, ..] = &self.slots;
        let (acquire, relaxed) = (Ordering::Acquire, Ordering::Relaxed);
        let mut free = slot.rest.load(relaxed) & !LOCKED;
        let mut tries = 0;
        while let Err(now) = slot.rest.compare_exchange(free, free | LOCKED, acquire, relaxed) {
            free = now & !LOCKED;
            tries += 1;
            if cfg!(loom) || tries % SPINS == 0 {
                yield_now();
            } else {
                spin_loop();
            }
        }
    }

    /// Gives the lock back; only by its holder.
    #[inline]
    pub(crate) fn unlock(&self) {
        let [slot, ..] = &self.slots;
        slot.rest.store(slot.rest.load(Ordering::Relaxed) & !LOCKED, Ordering::Release);
    }
}
