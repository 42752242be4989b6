//! Neighbours: the next hops and their Ethernet addresses.
//!
//! A table of fixed size without locks. Workers read it for every packet and write to
//! it when they learn an address; the [`Resolver`](keeper::Resolver) ages it. A
//! writer changes a slot by one compare-and-swap of the word that holds address,
//! state and generation, so that a reader sees all of a change or nothing.

mod displaced;
mod slot;

use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use flow::{HopId, InterfaceId};
use wire::Mac;

use crate::Defences;

use self::slot::{
    FREE, INCOMPLETE, INDEX_BITS, KEPT, REACHABLE, STALE, STATIC, Slot, WRITING, generation,
    generation_of, hop_id, index, is_kept, is_known, key_of, mac_of, number_of, pack, state_of,
};

/// How sure the table is of an Ethernet address (after RFC 4861 section 7.3.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NeighbourState {
    /// Asked for, not answered.
    Incomplete,
    /// Confirmed not long ago.
    Reachable,
    /// Confirmed once; still used, and asked for again when it is.
    Stale,
    /// Configured; never asked for, never changed by what is heard.
    Static,
}

/// One next hop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Neighbour {
    /// Its id, which no other next hop gets for a long time after this one is
    /// forgotten.
    pub hop: HopId,
    /// The interface it is on.
    pub interface: InterfaceId,
    /// Its IP address.
    pub addr: IpAddr,
    /// Its Ethernet address; `None` while incomplete.
    pub mac: Option<Mac>,
    /// How sure the Ethernet address is.
    pub state: NeighbourState,
    /// Whether it leads to a backend or is a gateway: then it is never forgotten.
    pub kept: bool,
    /// When it was last confirmed, in milliseconds.
    pub confirmed_ms: u64,
    /// When a packet last wanted to go there, in milliseconds.
    pub used_ms: u64,
}

/// What became of a station's claim to have an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Learnt {
    /// The address is no known next hop.
    Unknown,
    /// The next hop's Ethernet address was not known, or is the same.
    Confirmed,
    /// The next hop had another Ethernet address until then.
    Changed,
    /// The next hop's Ethernet address is fixed, or pinned to another one.
    Refused,
}

/// A next hop whose Ethernet address has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Change {
    /// The next hop, with its present Ethernet address.
    pub neighbour: Neighbour,
    /// The Ethernet address that it had when the last change was taken.
    pub former: Mac,
}

/// Slots that an address can be in.
const WINDOW: usize = 16;
/// While packets use a next hop, workers note that at least this often, in
/// milliseconds.
const USE_NOTED_MS: u64 = 2000;

/// Reading takes no lock; see the module's text.
#[derive(Debug)]
pub struct NeighbourTable {
    slots: Box<[Slot]>,
    seed: u64,
    changes: AtomicU64,
    moves: AtomicU64,
    pinned: AtomicBool,
    refresh_ms: AtomicU64,
    defences: Defences,
}

impl NeighbourTable {
    /// A table for `size` next hops (rounded up to a power of two, at most
    /// about a million). `seed` keeps others from choosing addresses that
    /// collide.
    #[must_use]
    pub fn new(size: usize, seed: u64) -> Self {
        let size = size.next_power_of_two().clamp(WINDOW, 1 << INDEX_BITS);
        let slots = (0..size).map(|_| Slot::default()).collect();
        Self {
            slots,
            seed,
            changes: AtomicU64::new(0),
            moves: AtomicU64::new(0),
            pinned: AtomicBool::new(false),
            refresh_ms: AtomicU64::new(30_000),
            defences: Defences::default(),
        }
    }

    /// The number of `hop`'s slot: two hops share one only if they are never in
    /// the table at the same time.
    #[inline]
    #[must_use]
    pub const fn slot_of(hop: HopId) -> usize {
        index(hop)
    }

    /// Number of slots.
    #[must_use]
    pub fn size(&self) -> usize {
        self.slots.len()
    }

    /// The number of changes of addresses and states. A thread that sees a count sees
    /// all changes that it counts.
    #[inline]
    #[must_use]
    pub fn changes(&self) -> u64 {
        self.changes.load(Ordering::Acquire)
    }

    /// The number of changes that concern compiled hops: a next hop in use has got
    /// another Ethernet address or lost its own. An address that becomes known, and a
    /// new or forgotten neighbour, do not count.
    #[inline]
    #[must_use]
    pub fn moves(&self) -> u64 {
        self.moves.load(Ordering::Acquire)
    }

    /// Whether a known Ethernet address stays as long as its neighbour answers
    /// there, whatever other stations claim.
    pub fn set_pinned(&self, pinned: bool) {
        self.pinned.store(pinned, Ordering::Relaxed);
    }

    /// Whether known Ethernet addresses stay: see [`Self::set_pinned`].
    #[must_use]
    pub fn is_pinned(&self) -> bool {
        self.pinned.load(Ordering::Relaxed)
    }

    /// Sets how long a neighbour's answer is valid, in milliseconds.
    pub fn set_refresh(&self, refresh_ms: u64) {
        self.refresh_ms.store(refresh_ms, Ordering::Relaxed);
    }

    /// How long a neighbour's answer is valid, in milliseconds.
    #[must_use]
    pub fn refresh_ms(&self) -> u64 {
        self.refresh_ms.load(Ordering::Relaxed)
    }

    /// Claims of other stations to our own addresses.
    #[must_use]
    pub const fn defences(&self) -> &Defences {
        &self.defences
    }

    fn window(&self, key: (u64, u64, u64)) -> impl Iterator<Item = (usize, &Slot)> {
        let mut hash = self.seed;
        for part in [key.0, key.1, key.2] {
            hash = (hash ^ part).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            hash ^= hash >> 29;
        }
        let start = hash as usize;
        (0..WINDOW).filter_map(move |step| {
            let at = start.wrapping_add(step) & (self.slots.len() - 1);
            self.slots.get(at).map(|slot| (at, slot))
        })
    }

    /// The next hop `addr` on `interface`, if the table knows it.
    #[must_use]
    pub fn find(&self, interface: InterfaceId, addr: IpAddr) -> Option<HopId> {
        let key = key_of(interface, addr);
        self.window(key).find_map(|(at, slot)| slot.holds(key).map(|word| hop_id(at, word)))
    }

    /// The next hop `addr` on `interface`, entered as incomplete if it is new. If
    /// there is no room, the table forgets a neighbour that has not answered, or one
    /// that no packet has used for long. `None`: all others are in use.
    pub fn hop(&self, interface: InterfaceId, addr: IpAddr, now_ms: u64) -> Option<HopId> {
        self.enter(interface, addr, now_ms, now_ms)
    }

    /// As [`Self::hop`], for a neighbour that no packet needs yet: it is the first to
    /// make room for another one.
    pub fn hear_of(&self, interface: InterfaceId, addr: IpAddr, now_ms: u64) -> Option<HopId> {
        self.enter(interface, addr, now_ms, 0)
    }

    fn enter(
        &self,
        interface: InterfaceId,
        addr: IpAddr,
        now_ms: u64,
        used_ms: u64,
    ) -> Option<HopId> {
        if let Some(hop) = self.find(interface, addr) {
            return Some(hop);
        }
        let key = key_of(interface, addr);
        let claim = || {
            let word = |slot: &Slot| slot.claim(key, now_ms, used_ms);
            self.window(key).find_map(|(at, slot)| word(slot).map(|word| hop_id(at, word)))
        };
        claim().or_else(|| {
            self.displace(key, now_ms)?;
            claim()
        })
    }

    /// Notes whether `hop` leads to a backend or is a gateway (`kept`).
    pub fn keep(&self, hop: HopId, kept: bool) {
        self.change(hop, |word| {
            let bit = if kept { KEPT } else { 0 };
            Some(word & !KEPT | bit)
        });
    }

    /// Enters `addr` on `interface` with a fixed Ethernet address. `None`:
    /// there is no room.
    pub fn set_static(&self, interface: InterfaceId, addr: IpAddr, mac: Mac) -> Option<HopId> {
        let hop = self.hop(interface, addr, 0)?;
        self.change(hop, |word| Some(with(word, number_of(mac), STATIC)));
        self.moves.fetch_add(1, Ordering::Release);
        Some(hop)
    }

    /// Ends the fixed Ethernet address of `addr` on `interface`: the address is
    /// confirmed as soon as a packet goes there. Nothing happens to a neighbour that
    /// isn't static.
    pub fn unset_static(&self, interface: InterfaceId, addr: IpAddr) {
        if let Some(hop) = self.find(interface, addr) {
            self.change(hop, |word| {
                (state_of(word) == STATIC).then(|| with(word, number_of(mac_of(word)), STALE))
            });
        }
    }

    /// Where packets for `hop` go now: the interface, and the Ethernet address
    /// once it is known. `None` if the hop has been forgotten. Notes that a
    /// packet wanted to go there.
    #[inline]
    #[must_use]
    pub fn resolve(&self, hop: HopId, now_ms: u64) -> Option<(InterfaceId, Option<Mac>)> {
        let slot = self.slot(hop)?;
        let (interface, word) = slot.read(generation(hop))?;
        // Seconds are precise enough, and spare the cache line.
        if slot.used_ms.load(Ordering::Relaxed).saturating_add(1000) <= now_ms {
            slot.used_ms.store(now_ms, Ordering::Relaxed);
        }
        Some((interface, (state_of(word) != INCOMPLETE).then(|| mac_of(word))))
    }

    /// The interface `hop` is on; `None` if the hop has been forgotten.
    #[inline]
    #[must_use]
    pub fn interface(&self, hop: HopId) -> Option<InterfaceId> {
        self.slot(hop)?.read(generation(hop)).map(|(interface, _)| interface)
    }

    /// What the table knows of `hop`; `None` if the hop has been forgotten.
    #[must_use]
    pub fn get(&self, hop: HopId) -> Option<Neighbour> {
        self.entry(index(hop)).filter(|neighbour| neighbour.hop == hop)
    }

    /// The neighbour in slot `at`, from 0 to [`size`](Self::size).
    #[must_use]
    pub fn entry(&self, at: usize) -> Option<Neighbour> {
        self.slots.get(at)?.neighbour(at)
    }

    /// All neighbours in the table.
    pub fn iter(&self) -> impl Iterator<Item = Neighbour> {
        self.slots.iter().enumerate().filter_map(|(at, slot)| slot.neighbour(at))
    }

    /// Notes that `addr` on `interface` has `mac`: a known next hop becomes
    /// reachable there.
    pub fn learn(&self, interface: InterfaceId, addr: IpAddr, mac: Mac, now_ms: u64) -> Learnt {
        let key = key_of(interface, addr);
        let found = self.window(key).find_map(|(at, slot)| Some((at, slot, slot.holds(key)?)));
        let Some((at, slot, word)) = found else { return Learnt::Unknown };
        let pinned = self.is_pinned();
        let learnt = |word| {
            let other = is_known(word) && mac_of(word) != mac;
            let stays = state_of(word) == STATIC || other && pinned;
            (!stays).then(|| with(word, number_of(mac), REACHABLE))
        };
        let Some(before) = self.change(hop_id(at, word), learnt) else { return Learnt::Refused };
        slot.confirmed_ms.store(now_ms, Ordering::Relaxed);
        if !is_known(before) || mac_of(before) == mac {
            return Learnt::Confirmed;
        }
        if slot.used_ms.load(Ordering::Relaxed).saturating_add(USE_NOTED_MS) >= now_ms {
            self.moves.fetch_add(1, Ordering::Release);
        }
        let former = number_of(mac_of(before)) | FORMER;
        let _ = slot.former.compare_exchange(0, former, Ordering::Relaxed, Ordering::Relaxed);
        Learnt::Changed
    }

    /// The change of the Ethernet address in slot `at`, from 0 to
    /// [`size`](Self::size), that was not taken yet.
    #[must_use]
    pub fn take_change(&self, at: usize) -> Option<Change> {
        let slot = self.slots.get(at)?;
        if slot.former.load(Ordering::Relaxed) == 0 {
            return None;
        }
        let former = mac_of(slot.former.swap(0, Ordering::Relaxed) << 16);
        let neighbour = slot.neighbour(at)?;
        (neighbour.mac != Some(former)).then_some(Change { neighbour, former })
    }

    /// Makes a reachable `hop` stale.
    pub fn expire(&self, hop: HopId) {
        self.change(hop, |word| {
            (state_of(word) == REACHABLE).then(|| with(word, number_of(mac_of(word)), STALE))
        });
    }

    /// Makes a stale `hop` incomplete: it has not answered for long.
    pub fn give_up(&self, hop: HopId) {
        let done =
            self.change(hop, |word| (state_of(word) == STALE).then(|| with(word, 0, INCOMPLETE)));
        if done.is_some() {
            self.moves.fetch_add(1, Ordering::Release);
        }
    }

    /// Forgets a `hop` that is stale or incomplete and not kept.
    pub fn forget(&self, hop: HopId) {
        self.change(hop, |word| {
            let may = matches!(state_of(word), STALE | INCOMPLETE) && !is_kept(word);
            may.then(|| pack(0, generation_of(word), FREE))
        });
    }

    /// Replaces the word of `hop` while the slot holds that hop, counts a change, and
    /// returns the old word.
    fn change(&self, hop: HopId, to: impl Fn(u64) -> Option<u64>) -> Option<u64> {
        let slot = self.slot(hop)?;
        let update = |word| {
            let same = generation_of(word) == generation(hop) && state_of(word) > WRITING;
            same.then(|| to(word)).flatten()
        };
        let before = slot.word.fetch_update(Ordering::AcqRel, Ordering::Acquire, update).ok()?;
        // Confirmations of known addresses come often and change nothing.
        if update(before).is_some_and(|after| after & !KEPT != before & !KEPT) {
            self.changes.fetch_add(1, Ordering::Release);
        }
        Some(before)
    }

    #[inline]
    fn slot(&self, hop: HopId) -> Option<&Slot> {
        self.slots.get(index(hop))
    }
}

/// Tells an Ethernet address of zeros from none.
const FORMER: u64 = 1 << 48;

/// `word` with another Ethernet address and state.
const fn with(word: u64, mac: u64, state: u64) -> u64 {
    pack(mac, generation_of(word), state | word & KEPT)
}

#[cfg(test)]
mod tests;
