//! Which neighbour makes room for a new one.
use flow::InterfaceId;

use super::slot::{
    FREE, INCOMPLETE, Slot, V6, WRITING, generation_of, is_kept, mac_of, pack, state_of,
};
use super::{NeighbourTable, STATIC, WINDOW};
use std::sync::atomic::Ordering;

/// A neighbour that no packet has used for so long makes room for another one.
const IDLE_MS: u64 = 30_000;

/// Why a neighbour may be forgotten for another; the first reason counts most.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Reason {
    /// It has not answered: an invented address never does.
    Unanswered,
    /// No packet has ever used it, or none for long.
    Idle,
    /// Its station has more than half of the places.
    Crowding,
}

impl NeighbourTable {
    /// Frees a slot for `key`, if any neighbour that could be in its place may go. Of
    /// neighbours with the same reason, one on the interface of `key` goes first, and
    /// of those the one that no packet has used for longest. Backends, gateways and
    /// static neighbours stay, so a flood of addresses displaces other invented
    /// addresses, and first those of its own interface.
    #[cold]
    pub(super) fn displace(&self, key: (u64, u64, u64), now_ms: u64) -> Option<()> {
        let (_, slot, word) = self
            .window(key)
            .filter_map(|(_, slot)| {
                let word = slot.word.load(Ordering::Acquire);
                let reason = self.reason(key, slot, word, now_ms)?;
                let elsewhere = slot.interface() != InterfaceId(key.2 as u16);
                let used_ms = slot.used_ms.load(Ordering::Relaxed);
                Some(((reason, elsewhere, used_ms), slot, word))
            })
            .min_by_key(|(worth, ..)| *worth)?;
        let free = pack(0, generation_of(word), FREE);
        slot.word.compare_exchange(word, free, Ordering::AcqRel, Ordering::Relaxed).ok()?;
        Some(())
    }

    fn reason(&self, key: (u64, u64, u64), slot: &Slot, word: u64, now_ms: u64) -> Option<Reason> {
        let state = state_of(word);
        if state <= WRITING || state == STATIC || is_kept(word) {
            return None;
        }
        if state == INCOMPLETE {
            return Some(Reason::Unanswered);
        }
        let used_ms = slot.used_ms.load(Ordering::Relaxed);
        if used_ms == 0 || now_ms.saturating_sub(used_ms) > IDLE_MS {
            return Some(Reason::Idle);
        }
        let own = |(_, other): &(usize, &Slot)| {
            let other = other.word.load(Ordering::Relaxed);
            state_of(other) > INCOMPLETE && mac_of(other) == mac_of(word)
        };
        (self.window(key).filter(own).count() > WINDOW / 2).then_some(Reason::Crowding)
    }
}

impl Slot {
    fn interface(&self) -> InterfaceId {
        InterfaceId((self.interface.load(Ordering::Relaxed) & !V6) as u16)
    }
}
