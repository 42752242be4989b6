//! Fragments: what was decided for the first fragment of a datagram holds for
//! the later ones, which have no ports.
//!
//! This is virtual reassembly: later fragments that come before the first are
//! held until it comes, and each fragment is sent on by itself. Overlapping
//! fragments are not looked for: the end host reassembles and decides. All
//! fragments of a datagram must reach the same worker; RSS hashes them by their
//! addresses alone. One table serves both directions, because addresses and
//! datagram ids name one direction only.
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
    /// 0 in IPv6, where later fragments needn't know it.
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

    fn hash(&self, seed: u64) -> usize {
        let mut hash = seed;
        let mut mix = |word: u64| {
            hash = (hash ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            hash ^= hash >> 29;
        };
        for addr in [self.src, self.dst] {
            let bits = match addr {
                IpAddr::V4(v4) => u128::from(v4.to_bits()),
                IpAddr::V6(v6) => v6.to_bits(),
            };
            mix((bits >> 64) as u64);
            mix(bits as u64);
        }
        mix(u64::from(self.id) << 8 | u64::from(self.proto));
        hash as usize
    }
}

/// What is known of a datagram.
#[derive(Clone, Copy, Debug)]
enum Fate {
    /// The first fragment has not come.
    Open,
    /// What the first fragment's connection does.
    Decided(Decision),
    /// The first fragment was dropped.
    Dropped,
}

#[derive(Clone, Copy, Debug)]
struct Datagram {
    key: FragmentKey,
    since_ms: u64,
    fate: Fate,
    held: PendingQueue,
}

/// What becomes of a later fragment.
pub(crate) enum Later<B> {
    /// It is sent on like the first.
    Forward(Packet<B>, Decision),
    /// It waits here.
    Held,
    /// There is no room for it.
    Overflow,
    /// The first fragment was dropped.
    Orphaned,
}

/// Datagrams in a set of the table.
const WAYS: usize = 4;
/// Datagrams looked at in one tick.
const PER_TICK: usize = 64;

/// The datagrams in pieces that one worker follows, and the pieces it holds.
pub(crate) struct Fragments<B> {
    datagrams: Box<[Option<Datagram>]>,
    waiting: PendingFragments<Packet<B>>,
    timeout_ms: u64,
    seed: u64,
    cursor: usize,
}

impl<B> Fragments<B> {
    /// Follows up to about `datagrams` datagrams and holds up to `held` pieces.
    pub(crate) fn new(datagrams: usize, held: usize, timeout_ms: u64, seed: u64) -> Self {
        let datagrams = datagrams.next_power_of_two().clamp(WAYS, 1 << 20);
        Self {
            datagrams: vec![None; datagrams].into_boxed_slice(),
            waiting: PendingFragments::new(held),
            timeout_ms,
            seed,
            cursor: 0,
        }
    }

    /// A later fragment.
    pub(crate) fn later(&mut self, key: FragmentKey, packet: Packet<B>, now_ms: u64) -> Later<B> {
        let Some(place) = self.place(&key) else { return Later::Overflow };
        let Some(slot) = self.datagrams.get_mut(place) else { return Later::Overflow };
        let datagram = slot.get_or_insert_with(|| Datagram {
            key,
            since_ms: now_ms,
            fate: Fate::Open,
            held: PendingQueue::NONE,
        });
        match datagram.fate {
            Fate::Decided(decision) => Later::Forward(packet, decision),
            Fate::Dropped => Later::Orphaned,
            Fate::Open if self.waiting.push(&mut datagram.held, packet) => Later::Held,
            Fate::Open => Later::Overflow,
        }
    }

    /// The first fragment has come; `decision` is `None` if it is dropped.
    /// [`release`](Self::release) then gives those that waited for it.
    pub(crate) fn first(&mut self, key: FragmentKey, decision: Option<Decision>, now_ms: u64) {
        let Some(place) = self.place(&key) else { return };
        let Some(slot) = self.datagrams.get_mut(place) else { return };
        let held = slot.map_or(PendingQueue::NONE, |old| old.held);
        let fate = decision.map_or(Fate::Dropped, Fate::Decided);
        *slot = Some(Datagram { key, since_ms: now_ms, fate, held });
    }

    /// The next fragment, in the order they came, that waited for the first.
    pub(crate) fn release(&mut self, key: &FragmentKey) -> Option<Packet<B>> {
        let place = self.find(key)?;
        let datagram = self.datagrams.get_mut(place)?.as_mut()?;
        self.waiting.pop(&mut datagram.held)
    }

    /// Gives up on datagrams that are too old, a part of the table at a time;
    /// how many held fragments were dropped.
    pub(crate) fn expire(&mut self, now_ms: u64) -> u64 {
        let mut dropped = 0;
        for _ in 0..PER_TICK.min(self.datagrams.len()) {
            self.cursor = (self.cursor + 1) % self.datagrams.len();
            let Some(slot) = self.datagrams.get_mut(self.cursor) else { continue };
            let timeout_ms = self.timeout_ms;
            let old = slot.take_if(|d| now_ms.saturating_sub(d.since_ms) > timeout_ms);
            if let Some(mut datagram) = old {
                dropped += self.waiting.clear(&mut datagram.held);
            }
        }
        dropped
    }

    fn find(&self, key: &FragmentKey) -> Option<usize> {
        self.set(key).find(
            |&at| matches!(self.datagrams.get(at), Some(Some(datagram)) if datagram.key == *key),
        )
    }

    /// Where the datagram is, or where it can be: a free place or that of a
    /// datagram for which nothing waits. `None`: all of them have some waiting.
    fn place(&mut self, key: &FragmentKey) -> Option<usize> {
        if let Some(place) = self.find(key) {
            return Some(place);
        }
        let worth = |at: usize| match self.datagrams.get(at) {
            Some(None) => Some(0),
            Some(Some(datagram)) if datagram.held.is_empty() => Some(datagram.since_ms + 1),
            _ => None,
        };
        let (_, place) = self.set(key).filter_map(|at| worth(at).map(|w| (w, at))).min()?;
        *self.datagrams.get_mut(place)? = None;
        Some(place)
    }

    fn set(&self, key: &FragmentKey) -> impl Iterator<Item = usize> + use<B> {
        let start = key.hash(self.seed) & (self.datagrams.len() - 1) & !(WAYS - 1);
        start..start + WAYS
    }
}
