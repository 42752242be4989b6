//! Fragments: the decision for the first fragment of a datagram holds for the later
//! fragments, which have no ports.
//!
//! This is virtual reassembly: later fragments that come before the first are held
//! until it comes, and each fragment is sent on by itself. The worker does not search
//! for overlapping fragments: the end host reassembles and decides. All fragments of
//! a datagram must reach the same worker; RSS hashes them by their addresses alone.
//! One table serves both directions, because addresses and datagram ids name one
//! direction only.
use std::net::IpAddr;

use wire::{Fragment, Headers, Net};

use crate::context::{Decision, Packet};
use crate::slow::pending_fragments::{PendingFragments, PendingQueue};

/// What all fragments of one datagram have in common (RFC 791 section 3.2, RFC
/// 8200 section 4.5).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FragmentKey {
    src: IpAddr,
    dst: IpAddr,
    id: u32,
    /// 0 in IPv6, whose later fragments need not state it.
    proto: u8,
}

impl FragmentKey {
    /// The key of a first or later fragment.
    pub(crate) fn of(frame: &[u8], headers: &Headers) -> Option<Self> {
        let id = match headers.fragment {
            Fragment::First(id) | Fragment::Later(id) => id,
            Fragment::Whole => return None,
        };
        let proto = if headers.net == Net::Ipv4 { headers.proto } else { 0 };
        let (src, dst) = (headers.src_addr(frame)?, headers.dst_addr(frame)?);
        Some(Self { src, dst, id, proto })
    }

    /// As [`Self::of`]; a whole packet gets a key that it shares with no fragment
    /// except those of datagram 0.
    pub(crate) fn of_any(frame: &[u8], headers: &Headers) -> Option<Self> {
        let fragment = match headers.fragment {
            Fragment::Whole => Fragment::First(0),
            fragment => fragment,
        };
        Self::of(frame, &Headers { fragment, ..*headers })
    }

    fn hash(&self, seed: u64) -> usize {
        let ids = u64::from(self.id) << 8 | u64::from(self.proto);
        mixed(seed, words(self.src).into_iter().chain(words(self.dst)).chain([ids]))
    }

    /// A hash of the source address alone.
    fn source(&self, seed: u64) -> usize {
        mixed(seed, words(self.src))
    }
}

fn words(addr: IpAddr) -> [u64; 2] {
    let bits = match addr {
        IpAddr::V4(v4) => u128::from(v4.to_bits()),
        IpAddr::V6(v6) => v6.to_bits(),
    };
    [(bits >> 64) as u64, bits as u64]
}

fn mixed(seed: u64, words: impl IntoIterator<Item = u64>) -> usize {
    let mix = |hash: u64, word: u64| {
        let hash = (hash ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        hash ^ hash >> 29
    };
    words.into_iter().fold(seed, mix) as usize
}

/// The state of a datagram.
#[derive(Clone, Copy, Debug)]
enum Fate {
    /// The first fragment has not come.
    Open,
    /// The first fragment's connection has this decision.
    Decided(Decision),
    /// The first fragment was dropped.
    Dropped,
}

#[derive(Clone, Copy, Debug)]
struct Datagram {
    key: FragmentKey,
    since_ms: u64,
    /// The datagram's number in the order of arrival: many datagrams come in one
    /// millisecond.
    number: u64,
    fate: Fate,
    held: PendingQueue,
}

impl Datagram {
    /// The cost of losing the datagram. In a set the datagram with the least worth
    /// makes room first, and among equals the oldest.
    const fn worth(&self, now_ms: u64, timeout_ms: u64) -> Worth {
        match self.fate {
            _ if now_ms.saturating_sub(self.since_ms) > timeout_ms => Worth::Nothing,
            Fate::Dropped => Worth::Dropped,
            Fate::Open => Worth::Open,
            Fate::Decided(_) => Worth::Decided,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Worth {
    Nothing,
    /// Without the datagram's state, later fragments are held instead of dropped.
    Dropped,
    /// Anybody can send later fragments whose first fragment never comes.
    Open,
    /// Later fragments of a datagram whose first fragment has been sent on.
    Decided,
}

/// What becomes of a later fragment.
pub(crate) enum Later<B> {
    /// It is forwarded like the first fragment.
    Forward(Packet<B>, Decision),
    /// It waits here.
    Held,
    /// There is no place for its datagram.
    Overflow,
    /// The first fragment was dropped, or went to the kernel.
    Orphaned(Packet<B>),
}

/// Datagrams in a set of the table.
const WAYS: usize = 4;
/// Datagrams looked at in one tick.
const PER_TICK: usize = 64;

/// The datagrams in pieces that one worker follows, and the pieces it holds.
///
/// Forged fragments harm other datagrams as little as possible. A first fragment
/// always finds a place, if need be that of the oldest datagram whose first fragment
/// has not come; forged later fragments never displace a datagram whose first
/// fragment has come. Held fragments make room for newer ones, oldest first, and a
/// source address has one share of the room ([`PendingFragments`]).
pub(crate) struct Fragments<B> {
    datagrams: Box<[Option<Datagram>]>,
    waiting: PendingFragments<Packet<B>>,
    timeout_ms: u64,
    seed: u64,
    cursor: usize,
    /// The number of the next datagram.
    number: u64,
    /// Held pieces that have been dropped to make room.
    displaced: u64,
}

impl<B> Fragments<B> {
    /// Follows up to about `datagrams` datagrams and holds up to about `held`
    /// pieces.
    pub(crate) fn new(datagrams: usize, held: usize, timeout_ms: u64, seed: u64) -> Self {
        let datagrams = datagrams.next_power_of_two().clamp(WAYS, 1 << 20);
        Self {
            datagrams: vec![None; datagrams].into_boxed_slice(),
            waiting: PendingFragments::new(held),
            timeout_ms,
            seed,
            cursor: 0,
            number: 0,
            displaced: 0,
        }
    }

    /// Sets the time for which fragments of a datagram belong together.
    pub(crate) const fn set_timeout(&mut self, timeout_ms: u64) {
        self.timeout_ms = timeout_ms;
    }

    /// How many held fragments have made room for others since the last call.
    pub(crate) const fn take_displaced(&mut self) -> u64 {
        std::mem::replace(&mut self.displaced, 0)
    }

    /// Decides on a later fragment.
    pub(crate) fn later(&mut self, key: FragmentKey, packet: Packet<B>, now_ms: u64) -> Later<B> {
        let Some(place) = self.place(&key, Worth::Open, now_ms) else { return Later::Overflow };
        let number = self.next_number();
        let Some(slot) = self.datagrams.get_mut(place) else { return Later::Overflow };
        let datagram = slot.get_or_insert(Datagram {
            key,
            since_ms: now_ms,
            number,
            fate: Fate::Open,
            held: PendingQueue::NONE,
        });
        match datagram.fate {
            Fate::Decided(decision) => Later::Forward(packet, decision),
            Fate::Dropped => Later::Orphaned(packet),
            Fate::Open => {
                self.hold(place, key.source(self.seed), packet);
                Later::Held
            }
        }
    }

    /// Notes that the first fragment has come; `decision` is `None` if it is dropped.
    /// [`release`](Self::release) then returns the fragments that waited for it.
    pub(crate) fn first(&mut self, key: FragmentKey, decision: Option<Decision>, now_ms: u64) {
        let most = if decision.is_some() { Worth::Decided } else { Worth::Dropped };
        let Some(place) = self.place(&key, most, now_ms) else { return };
        let number = self.next_number();
        let Some(slot) = self.datagrams.get_mut(place) else { return };
        let held = slot.map_or(PendingQueue::NONE, |old| old.held);
        let fate = decision.map_or(Fate::Dropped, Fate::Decided);
        *slot = Some(Datagram { key, since_ms: now_ms, number, fate, held });
    }

    /// The next fragment, in the order of arrival, that waited for the first one.
    pub(crate) fn release(&mut self, key: &FragmentKey) -> Option<Packet<B>> {
        let place = self.find(key)?;
        let datagram = self.datagrams.get_mut(place)?.as_mut()?;
        self.waiting.pop(&mut datagram.held)
    }

    /// Gives up on datagrams that are too old, a part of the table at a time, and
    /// returns how many held fragments were dropped.
    pub(crate) fn expire(&mut self, now_ms: u64) -> u64 {
        let mut dropped = 0;
        for _ in 0..PER_TICK.min(self.datagrams.len()) {
            self.cursor = (self.cursor + 1) % self.datagrams.len();
            let Some(slot) = self.datagrams.get_mut(self.cursor) else { continue };
            let timeout_ms = self.timeout_ms;
            let old = slot.take_if(|d| d.worth(now_ms, timeout_ms) == Worth::Nothing);
            if let Some(mut datagram) = old {
                dropped += self.waiting.clear(&mut datagram.held);
            }
        }
        dropped
    }

    /// Holds a fragment of the datagram at `place`; the oldest fragment that was held
    /// for the same share of sources makes room.
    fn hold(&mut self, place: usize, source: usize, packet: Packet<B>) {
        let oldest = self.waiting.displaced_by(source);
        if let Some(Some(oldest)) = oldest.and_then(|at| self.datagrams.get_mut(at)) {
            self.displaced += u64::from(self.waiting.pop(&mut oldest.held).is_some());
        }
        if let Some(Some(datagram)) = self.datagrams.get_mut(place) {
            self.waiting.push(&mut datagram.held, (source, place), packet);
        }
    }

    const fn next_number(&mut self) -> u64 {
        self.number += 1;
        self.number
    }

    fn find(&self, key: &FragmentKey) -> Option<usize> {
        self.set(key).find(
            |&at| matches!(self.datagrams.get(at), Some(Some(datagram)) if datagram.key == *key),
        )
    }

    /// The place of the datagram, or a place for it: a free one, or that of the
    /// datagram with the least worth, which is at most `most`. `None`: every datagram
    /// there is worth more.
    fn place(&mut self, key: &FragmentKey, most: Worth, now_ms: u64) -> Option<usize> {
        if let Some(place) = self.find(key) {
            return Some(place);
        }
        let worth = |at: usize| match self.datagrams.get(at)? {
            None => Some((Worth::Nothing, 0)),
            Some(own) => Some((own.worth(now_ms, self.timeout_ms), own.number)),
        };
        let all = self.set(key).filter_map(|at| worth(at).map(|(worth, age)| (worth, age, at)));
        let (_, _, place) = all.min().filter(|(worth, ..)| *worth <= most)?;
        if let Some(mut old) = self.datagrams.get_mut(place)?.take() {
            self.displaced += self.waiting.clear(&mut old.held);
        }
        Some(place)
    }

    fn set(&self, key: &FragmentKey) -> impl Iterator<Item = usize> + use<B> {
        let start = key.hash(self.seed) & (self.datagrams.len() - 1) & !(WAYS - 1);
        start..start + WAYS
    }
}
