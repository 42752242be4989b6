//! One slot of the neighbour table.
//!
//! A sequence lock: the thread that takes a free slot makes its state WRITING under a
//! new generation, writes the key and then makes the state INCOMPLETE. A reader that
//! finds the same generation before and after reading the key has read one key.
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::atomic::{AtomicU64, Ordering, fence};

use flow::{HopId, InterfaceId};
use wire::Mac;

use super::{Neighbour, NeighbourState};

/// A hop's id is the slot's number in so many bits and the generation above.
pub(super) const INDEX_BITS: u32 = 20;
const GENERATIONS: u64 = 1 << (32 - INDEX_BITS);

/// `word` is the Ethernet address (48 bits), the generation (12), a bit for hops
/// that are kept, and the state (3). The key changes only while the state is WRITING.
#[derive(Debug, Default)]
#[repr(align(64))]
pub(super) struct Slot {
    pub(super) word: AtomicU64,
    high: AtomicU64,
    low: AtomicU64,
    pub(super) interface: AtomicU64,
    pub(super) confirmed_ms: AtomicU64,
    pub(super) used_ms: AtomicU64,
    /// The Ethernet address before the last change, until that change is reported.
    pub(super) former: AtomicU64,
}

pub(super) const FREE: u64 = 0;
pub(super) const WRITING: u64 = 1;
pub(super) const INCOMPLETE: u64 = 2;
pub(super) const REACHABLE: u64 = 3;
pub(super) const STALE: u64 = 4;
pub(super) const STATIC: u64 = 5;
/// Beside the state: the next hop leads to a backend or is a gateway.
pub(super) const KEPT: u64 = 8;
pub(super) const V6: u64 = 1 << 16;

pub(super) const fn state_of(word: u64) -> u64 {
    word & 7
}

pub(super) const fn is_kept(word: u64) -> bool {
    word & KEPT != 0
}

/// Whether packets can be sent there: the Ethernet address is known.
pub(super) const fn is_known(word: u64) -> bool {
    matches!(state_of(word), REACHABLE | STALE | STATIC)
}

pub(super) const fn generation_of(word: u64) -> u64 {
    (word >> 4) & (GENERATIONS - 1)
}

pub(super) const fn pack(mac: u64, generation: u64, state: u64) -> u64 {
    (mac << 16) | ((generation & (GENERATIONS - 1)) << 4) | state
}

pub(super) fn mac_of(word: u64) -> Mac {
    let [_, _, a, b, c, d, e, f] = (word >> 16).to_be_bytes();
    Mac([a, b, c, d, e, f])
}

pub(super) fn number_of(mac: Mac) -> u64 {
    mac.0.iter().fold(0, |number, &byte| (number << 8) | u64::from(byte))
}

/// The key in the form that a slot holds.
pub(super) fn key_of(interface: InterfaceId, addr: IpAddr) -> (u64, u64, u64) {
    match addr {
        IpAddr::V4(v4) => (0, u64::from(v4.to_bits()), u64::from(interface.0)),
        IpAddr::V6(v6) => {
            let bits = v6.to_bits();
            ((bits >> 64) as u64, bits as u64, u64::from(interface.0) | V6)
        }
    }
}

pub(super) fn hop_id(at: usize, word: u64) -> HopId {
    HopId(((generation_of(word) as u32) << INDEX_BITS) | at as u32)
}

/// The slot that `hop` is in.
pub(super) const fn index(hop: HopId) -> usize {
    (hop.0 & ((1 << INDEX_BITS) - 1)) as usize
}

pub(super) const fn generation(hop: HopId) -> u64 {
    (hop.0 >> INDEX_BITS) as u64
}

impl Slot {
    /// Interface and word, if the slot still holds this generation.
    #[inline]
    pub(super) fn read(&self, generation: u64) -> Option<(InterfaceId, u64)> {
        let word = self.word.load(Ordering::Acquire);
        let interface = self.interface.load(Ordering::Relaxed) as u16;
        fence(Ordering::Acquire);
        let after = self.word.load(Ordering::Relaxed);
        let valid = state_of(word) > WRITING
            && generation_of(word) == generation
            && generation_of(after) == generation;
        valid.then_some((InterfaceId(interface), word))
    }

    /// The word, if the slot holds `key`.
    pub(super) fn holds(&self, key: (u64, u64, u64)) -> Option<u64> {
        let word = self.word.load(Ordering::Acquire);
        let held = (
            self.high.load(Ordering::Relaxed),
            self.low.load(Ordering::Relaxed),
            self.interface.load(Ordering::Relaxed),
        );
        fence(Ordering::Acquire);
        let after = self.word.load(Ordering::Relaxed);
        let same = state_of(word) > WRITING && generation_of(word) == generation_of(after);
        (same && held == key).then_some(word)
    }

    /// Takes a free slot for `key`, which a packet used last at `used_ms`; returns
    /// the slot's new word.
    pub(super) fn claim(&self, key: (u64, u64, u64), now_ms: u64, used_ms: u64) -> Option<u64> {
        let free = self.word.load(Ordering::Relaxed);
        if state_of(free) != FREE {
            return None;
        }
        let generation = generation_of(free) + 1;
        let writing = pack(0, generation, WRITING);
        self.word.compare_exchange(free, writing, Ordering::AcqRel, Ordering::Relaxed).ok()?;
        // A thread that reads any of the key below sees WRITING when it reads the
        // word again.
        fence(Ordering::Release);
        self.high.store(key.0, Ordering::Relaxed);
        self.low.store(key.1, Ordering::Relaxed);
        self.interface.store(key.2, Ordering::Relaxed);
        self.confirmed_ms.store(now_ms, Ordering::Relaxed);
        self.used_ms.store(used_ms, Ordering::Relaxed);
        self.former.store(0, Ordering::Relaxed);
        let word = pack(0, generation, INCOMPLETE);
        self.word.store(word, Ordering::Release);
        Some(word)
    }

    pub(super) fn neighbour(&self, at: usize) -> Option<Neighbour> {
        let word = self.word.load(Ordering::Acquire);
        let (high, low) = (self.high.load(Ordering::Relaxed), self.low.load(Ordering::Relaxed));
        let interface = self.interface.load(Ordering::Relaxed);
        let addr = if interface & V6 == 0 {
            IpAddr::V4(Ipv4Addr::from_bits(low as u32))
        } else {
            IpAddr::V6(Ipv6Addr::from_bits((u128::from(high) << 64) | u128::from(low)))
        };
        let state = match state_of(word) {
            INCOMPLETE => NeighbourState::Incomplete,
            REACHABLE => NeighbourState::Reachable,
            STALE => NeighbourState::Stale,
            STATIC => NeighbourState::Static,
            _ => return None,
        };
        self.read(generation_of(word))?;
        Some(Neighbour {
            hop: hop_id(at, word),
            interface: InterfaceId(interface as u16),
            addr,
            mac: (state != NeighbourState::Incomplete).then(|| mac_of(word)),
            state,
            kept: is_kept(word),
            confirmed_ms: self.confirmed_ms.load(Ordering::Relaxed),
            used_ms: self.used_ms.load(Ordering::Relaxed),
        })
    }
}
