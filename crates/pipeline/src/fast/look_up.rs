//! Second pass: packets of which the NIC reported nothing are looked up in the
//! connection table, all of a burst together, so that their cache misses
//! overlap.
//!
//! Next: `serve` for connections that are found, `passing` for the L7 agent's; `new_connection` for packets
//! that may open one; the slow path for all others.
use arrayvec::ArrayVec;
use conntrack::{FastKey, Hit, Key};
use packet::PacketBuf;
use splice::{Agent, Passing};
use wire::{FastHeader, FlowKey};

use crate::context::Context;
use crate::fast::Link;
use crate::fast::fresh::{Fresh, FreshOf};
use crate::pipeline::BURST;
use crate::slow::spliced::Spliced;
use crate::verdict::{Verdict, Verdicts};

/// Packets of one family that are looked up together.
#[derive(Default)]
struct Lookups<const K: usize> {
    keys: ArrayVec<Key<K>, BURST>,
    places: ArrayVec<u8, BURST>,
}

/// Packets that are looked up together.
#[derive(Default)]
struct Gathered {
    v4: Lookups<1>,
    v6: Lookups<4>,
    /// A bit for each place whose packet has a SYN.
    opening: u64,
}

/// Looks up the `unknown` packets, which have no verdict, and returns how many have a
/// connection. Packets without a fast header are left untouched, and packets that are
/// not found and may open a connection are noted in `fresh`.
pub(crate) fn look_up<const TAGGED: bool, B: PacketBuf, O>(
    cx: &Context<'_, O>,
    link: Link<'_, TAGGED>,
    spliced: &Spliced,
    burst: &[B],
    unknown: usize,
    verdicts: &mut Verdicts,
    fresh: &mut Fresh,
) -> usize {
    let mut all = Gathered::default();
    if unknown == burst.len() {
        all.gather(cx, link, burst, 0..burst.len() as u8);
    } else {
        let places = places_of_unknown(verdicts.get(..burst.len()).unwrap_or(verdicts));
        all.gather(cx, link, burst, places.into_iter().take(unknown));
    }
    let Gathered { v4, v6, opening } = &all;
    let mut found = v4.look_up(cx, link, spliced, (burst, *opening), verdicts, &mut fresh.v4);
    if !v6.keys.is_empty() {
        found += v6.look_up(cx, link, spliced, (burst, *opening), verdicts, &mut fresh.v6);
    }
    found
}

impl Gathered {
    /// Takes the packets at `places` that have a fast header.
    #[inline(always)]
    fn gather<const TAGGED: bool, B: PacketBuf, O>(
        &mut self,
        cx: &Context<'_, O>,
        link: Link<'_, TAGGED>,
        burst: &[B],
        places: impl Iterator<Item = u8>,
    ) {
        for place in places {
            let Some(buf) = burst.get(usize::from(place)) else { break };
            // The NIC's report may be stale: the slow path counts that.
            if buf.mark().is_some() || cx.queue {
                continue;
            }
            let frame = buf.bytes();
            let Some(tag) = link.tag_of_own(frame) else { continue };
            if let Some((header, opens)) = FastHeader::or_opening(frame, tag) {
                self.note_opening(opens, place);
                self.v4.push(&header, place);
            } else if let Some((header, opens)) = FastHeader::or_opening(frame, tag) {
                self.note_opening(opens, place);
                self.v6.push(&header, place);
            }
        }
    }

    #[inline(always)]
    const fn note_opening(&mut self, opens: bool, place: u8) {
        if opens {
            self.opening |= 1 << place;
        }
    }
}

impl<const K: usize> Lookups<K> {
    #[inline(always)]
    fn push(&mut self, header: &FastHeader<K>, place: u8) {
        // There are no more packets than places.
        let _ = self.keys.try_push(Key::from(header));
        let _ = self.places.try_push(place);
    }

    #[inline(always)]
    fn look_up<const TAGGED: bool, B: PacketBuf, O>(
        &self,
        cx: &Context<'_, O>,
        link: Link<'_, TAGGED>,
        spliced: &Spliced,
        (burst, opening): (&[B], u64),
        verdicts: &mut Verdicts,
        fresh: &mut FreshOf<K>,
    ) -> usize
    where
        Key<K>: FastKey<K>,
        Agent: Passing<K>,
        FlowKey: for<'k> From<&'k Key<K>>,
    {
        let mut hits: ArrayVec<Option<Hit>, BURST> = ArrayVec::new();
        hits.extend(self.keys.iter().map(|_| None));
        cx.shared.table().lookup_burst(&self.keys, &mut hits);
        let mut found = 0;
        for ((&place, key), &hit) in self.places.iter().zip(&self.keys).zip(&hits) {
            match (hit, verdicts.get_mut(usize::from(place))) {
                // A SYN of a known connection is for the slow path.
                (Some(hit), Some(verdict)) if opening >> place & 1 == 0 => {
                    *verdict = Verdict::Found(hit);
                    found += 1;
                }
                (Some(_), _) => {}
                (None, verdict) => match (spliced.verdict(cx, key), verdict) {
                    (Some(passes), Some(verdict)) => {
                        *verdict = passes;
                        found += 1;
                    }
                    _ => note(link, burst, place, fresh),
                },
            }
        }
        found
    }
}

/// The places of the packets without a verdict; places behind them have no meaning.
/// The loop has no branch: where the NIC knows a part of the connections, the branch
/// can't be predicted, and a wrong prediction costs as much as half a packet.
#[inline(always)]
fn places_of_unknown(verdicts: &[Verdict]) -> [u8; BURST] {
    let (mut places, mut len) = ([0; BURST], 0_usize);
    for (verdict, place) in verdicts.iter().zip(0..) {
        if let Some(free) = places.get_mut(len) {
            *free = place;
        }
        len += usize::from(matches!(verdict, Verdict::Unknown));
    }
    places
}

/// Notes a packet of no known connection if it may open one. The slow path drops a
/// packet that is not sound.
#[inline(never)]
fn note<const TAGGED: bool, const K: usize, B: PacketBuf>(
    link: Link<'_, TAGGED>,
    burst: &[B],
    place: u8,
    fresh: &mut FreshOf<K>,
) {
    let Some(buf) = burst.get(usize::from(place)) else { return };
    let frame = buf.bytes();
    let Some((header, tag)) = link.again::<K>(frame) else { return };
    if header.may_open() && header.is_sound(frame, tag, buf.has_verified_header()) {
        let _ = fresh.try_push((place, header));
    }
}
