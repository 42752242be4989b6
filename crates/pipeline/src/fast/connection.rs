//! The fast lane: plain packets (`wire::Plain`) of known connections. Three
//! passes over the burst, each of which leaves its cache misses to the next:
//! ask the NIC's word of each packet, and fetch what it names; look up those of
//! which it said nothing; compare, rewrite, send. Whatever isn't as usual is
//! left, whole and untouched, to the general way, which does the same to these
//! packets.
use arrayvec::ArrayVec;
use conntrack::{FastAction, Hit, Key};
use flow::PortId;
use packet::PacketBuf;
use state::{Counter, PortShared};
use wire::fast_header::is_for;
use wire::{FastHeader, Mac};

use crate::context::Context;
use crate::hops::Hops;
use crate::open::Fresh;
use crate::pipeline::BURST;
use crate::queue_lane::QueueLane;

/// What is known of a packet before it is acted on.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Told {
    /// Nothing.
    Nothing,
    /// The NIC's mark names a connection.
    Mark(Hit),
    /// It is plain, and the connection table has found it.
    Table(Hit),
    /// The receive queue means something.
    Queue,
    /// Several backends share the receive queue, and the mark means one.
    Shared(u16),
    /// It opens a connection, the one with this number.
    Open(u8),
    /// It goes the general way, as the next job.
    Job,
    /// It has been dropped and counted.
    Dropped,
}

/// Of all packets of a burst, in order; those behind it count for nothing.
pub(crate) type TellTale = [Told; BURST];

/// What happened to a burst, counted at its end.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Tally {
    pub(crate) marked: u64,
    pub(crate) queued: u64,
    pub(crate) looked_up: u64,
}

/// First pass: what the NIC said of each packet. Touches no frame, but fetches
/// them and the connections that marks name. Of how many nothing is known.
#[inline(always)]
pub(crate) fn ask<B: PacketBuf, O>(
    cx: &Context<'_, O>,
    port: &PortShared,
    lane: Option<&QueueLane>,
    burst: &[B],
    told: &mut TellTale,
) -> usize {
    let unmarked = if lane.is_some() { Told::Queue } else { Told::Nothing };
    let mut unknown = 0;
    for (buf, told) in burst.iter().zip(told.iter_mut()) {
        buf.prefetch();
        let mark = buf.mark();
        *told = match mark.and_then(|mark| port.marks.get(mark)) {
            Some(marked) => {
                cx.shared.table.prefetch(marked.conn);
                Told::Mark(Hit { conn: marked.conn, direction: marked.direction })
            }
            None => match mark.and_then(|mark| port.queues.tag(mark)) {
                Some(tag) => Told::Shared(tag),
                None => {
                    unknown += usize::from(lane.is_none());
                    unmarked
                }
            },
        };
    }
    unknown
}

/// Packets that are looked up together.
#[derive(Default)]
struct Asked {
    keys: ArrayVec<Key<1>, BURST>,
    places: ArrayVec<u8, BURST>,
    /// A bit for each place whose packet may open a connection.
    opening: u64,
}

impl Asked {
    /// Takes those at `places` that are plain.
    #[inline(always)]
    fn gather<B: PacketBuf, O>(
        &mut self,
        cx: &Context<'_, O>,
        station: Mac,
        burst: &[B],
        places: impl Iterator<Item = u8>,
    ) {
        for place in places {
            let Some(buf) = burst.get(usize::from(place)) else { break };
            // What the NIC said may be stale: the general way counts that.
            if buf.mark().is_some() || cx.queue {
                continue;
            }
            if !is_for(buf.bytes(), station) {
                continue;
            }
            let plain = FastHeader::of(buf.bytes(), 0).or_else(|| {
                self.opening |= 1 << place;
                first(buf.bytes())
            });
            if let Some(plain) = plain {
                self.keys.push(Key::from(&plain));
                self.places.push(place);
            }
        }
    }
}

/// Second pass, if there are packets of which nothing is known, `unknown` of
/// them: they are looked up together; how many are found. Those that are not
/// plain are left as they are. What is not found and may open a connection is
/// noted in `fresh`.
pub(crate) fn find<B: PacketBuf, O>(
    cx: &Context<'_, O>,
    station: Mac,
    burst: &[B],
    unknown: usize,
    told: &mut TellTale,
    fresh: &mut Fresh,
) -> usize {
    let mut asked = Asked::default();
    if unknown == burst.len() {
        asked.gather(cx, station, burst, 0..burst.len() as u8);
    } else {
        let places = nothing_known(told.get(..burst.len()).unwrap_or(told));
        asked.gather(cx, station, burst, places.into_iter().take(unknown));
    }
    let Asked { keys, places, opening } = asked;
    let mut hits: ArrayVec<Option<Hit>, BURST> = ArrayVec::new();
    hits.extend(keys.iter().map(|_| None));
    cx.shared.table.lookup_burst(&keys, &mut hits);
    let mut found = 0;
    for (&place, &hit) in places.iter().zip(&hits) {
        match (hit, told.get_mut(usize::from(place))) {
            // A SYN of a known connection is not for this lane.
            (Some(hit), Some(told)) if opening >> place & 1 == 0 => {
                *told = Told::Table(hit);
                found += 1;
            }
            (Some(_), _) => {}
            (None, _) => note(burst, place, fresh),
        }
    }
    found
}

/// The places of the packets of which nothing is known; those behind them count
/// for nothing. Without a branch: where the NIC knows a part of the connections,
/// whether it knows that of the next packet can't be predicted, and to be wrong
/// costs as much as half a packet.
#[inline(always)]
fn nothing_known(told: &[Told]) -> [u8; BURST] {
    let (mut places, mut len) = ([0; BURST], 0_usize);
    for (told, place) in told.iter().zip(0..) {
        if let Some(free) = places.get_mut(len) {
            *free = place;
        }
        len += usize::from(matches!(told, Told::Nothing));
    }
    places
}

/// A packet that is plain but for being the first of a TCP connection.
#[cold]
#[inline(never)]
fn first(frame: &[u8]) -> Option<FastHeader<1>> {
    FastHeader::opening(frame, 0)
}

/// Notes a plain packet of no known connection, if it may open one.
#[inline(never)]
fn note<B: PacketBuf>(burst: &[B], place: u8, fresh: &mut Fresh) {
    let plain = burst.get(usize::from(place)).and_then(|buf| FastHeader::again(buf.bytes(), 0));
    if let Some(plain) = plain.filter(FastHeader::may_open) {
        fresh.push((place, plain));
    }
}

/// Third pass, for a packet of a connection that its mark named, which may be
/// stale, or of one that [`find`] has found: rewrites it; where it goes. `None`,
/// and nothing happens: the general way must be taken.
#[inline(always)]
pub(crate) fn pass_known<O>(
    cx: &Context<'_, O>,
    hops: &mut Hops,
    station: Mac,
    hit: Hit,
    frame: &mut [u8],
) -> Option<PortId> {
    let plain = FastHeader::of(frame, 0).filter(|_| is_for(frame, station))?;
    let action = cx.shared.table.serve_marked(hit, &Key::from(&plain), cx.now_ms)?;
    rewrite(cx, hops, &plain, &action, frame)
}

/// Third pass, for a plain packet whose connection [`find`] has found, and
/// nothing else: it need not be compared again.
#[inline(always)]
pub(crate) fn pass_found<O>(
    cx: &Context<'_, O>,
    hops: &mut Hops,
    hit: Hit,
    frame: &mut [u8],
) -> Option<PortId> {
    let plain = FastHeader::again(frame, 0)?;
    let action = cx.shared.table.serve_found(hit, &Key::from(&plain), cx.now_ms)?;
    rewrite(cx, hops, &plain, &action, frame)
}

#[inline(always)]
fn rewrite<O>(
    cx: &Context<'_, O>,
    hops: &mut Hops,
    plain: &FastHeader<1>,
    action: &FastAction<1>,
    frame: &mut [u8],
) -> Option<PortId> {
    let way = hops.way(cx, action.hop).filter(|way| way.takes(frame.len()))?;
    way.write(frame);
    action.rewrite.apply(frame, 0, plain.proto);
    Some(way.port)
}

impl Tally {
    /// Adds up at the end of a burst.
    #[inline]
    pub(crate) fn count<O>(&self, cx: &Context<'_, O>) {
        let Self { marked, queued, looked_up } = *self;
        for (counter, by) in [
            (Counter::ForwardedPackets, marked + queued + looked_up),
            (Counter::MatchedByMark, marked),
            (Counter::MatchedByQueue, queued),
            (Counter::LookedUp, looked_up),
        ] {
            if by > 0 {
                cx.counters.add(counter, by);
            }
        }
    }
}
