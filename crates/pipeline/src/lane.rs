//! The fast lane: plain packets (`wire::Plain`) of known connections. Three
//! passes over the burst, each of which leaves its cache misses to the next:
//! ask the NIC's word of each packet, and fetch what it names; look up those of
//! which it said nothing; compare, rewrite, send. Whatever isn't as usual is
//! left, whole and untouched, to the general way, which does the same to these
//! packets.
use arrayvec::ArrayVec;
use conntrack::{Hit, PlainAction, PlainKey};
use packet::PacketBuf;
use service::{Delivery, Direction};
use wire::plain::Head;
use wire::{Mac, Plain, PlainRewrite, Rewrite};

use crate::context::Context;
use crate::counters::Counter;
use crate::encoding::QueueAction;
use crate::hops::{Hops, Way};
use crate::open::Fresh;
use crate::pipeline::BURST;
use crate::{PortId, PortShared};

/// What is known of a packet before it is acted on.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Told {
    /// Nothing.
    Nothing,
    /// The NIC's mark names a connection.
    Mark(Hit),
    /// The receive queue means something.
    Queue,
    /// Several backends share the receive queue, and the mark means one.
    Shared(u16),
    /// It is plain, and the connection table has found it.
    Table(Hit),
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
    lane: &Option<QueueLane>,
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

/// Second pass, if there are packets of which nothing is known: they are looked
/// up together; how many are found. Those that are not plain are left as they
/// are. What is not found and may open a connection is noted in `fresh`.
pub(crate) fn find<B: PacketBuf, O>(
    cx: &Context<'_, O>,
    station: Mac,
    burst: &[B],
    told: &mut TellTale,
    fresh: &mut Fresh,
) -> usize {
    let mut keys: ArrayVec<PlainKey, BURST> = ArrayVec::new();
    let mut places: ArrayVec<u8, BURST> = ArrayVec::new();
    let mut opening = 0_u64;
    for ((buf, told), place) in burst.iter().zip(told.iter()).zip(0..) {
        // What the NIC said may be stale: the general way counts that.
        if !matches!(told, Told::Nothing) || buf.mark().is_some() || cx.queue.is_some() {
            continue;
        }
        let Some(head) = buf.bytes().first_chunk() else { continue };
        let plain = Plain::of(head, buf.bytes().len(), station).or_else(|| {
            opening |= 1 << place;
            first(buf.bytes(), station)
        });
        if let Some(plain) = plain {
            keys.push(key(&plain));
            places.push(place);
        }
    }
    let mut hits: ArrayVec<Option<Hit>, BURST> = ArrayVec::new();
    hits.extend(keys.iter().map(|_| None));
    cx.shared.table.lookup_plain_ahead(&keys, &mut hits);
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

/// A packet that is plain but for being the first of a TCP connection.
#[cold]
#[inline(never)]
fn first(frame: &[u8], station: Mac) -> Option<Plain> {
    frame.first_chunk().and_then(|head| Plain::first(head, frame.len(), station))
}

/// Notes a plain packet of no known connection, if it may open one.
#[inline(never)]
fn note<B: PacketBuf>(burst: &[B], place: u8, fresh: &mut Fresh) {
    let head = burst.get(usize::from(place)).and_then(|buf| buf.bytes().first_chunk());
    if let Some(plain) = head.map(Plain::again).filter(Plain::may_open) {
        fresh.push((place, plain));
    }
}

/// The packet's 5-tuple.
#[inline(always)]
pub(crate) fn key(plain: &Plain) -> PlainKey {
    PlainKey { addresses: plain.addresses, ports: plain.ports, proto: plain.proto }
}

/// Third pass, for a packet of a connection that its mark named, which may be
/// stale: rewrites it; where it goes. `None`, and nothing happens: the general
/// way must be taken.
#[inline(always)]
pub(crate) fn pass_marked<O>(
    cx: &Context<'_, O>,
    hops: &mut Hops,
    station: Mac,
    hit: Hit,
    frame: &mut [u8],
) -> Option<PortId> {
    let len = frame.len();
    let head = frame.first_chunk_mut()?;
    let plain = Plain::of(head, len, station)?;
    let action = cx.shared.table.plain(hit, &key(&plain), cx.now_ms)?;
    rewrite(cx, hops, &plain, &action, len, head)
}

/// Third pass, for a plain packet whose connection [`find`] has found.
#[inline(always)]
pub(crate) fn pass_found<O>(
    cx: &Context<'_, O>,
    hops: &mut Hops,
    hit: Hit,
    frame: &mut [u8],
) -> Option<PortId> {
    let len = frame.len();
    let head = frame.first_chunk_mut()?;
    let plain = Plain::again(head);
    let action = cx.shared.table.plain_found(hit, plain.proto, cx.now_ms)?;
    rewrite(cx, hops, &plain, &action, len, head)
}

#[inline(always)]
fn rewrite<O>(
    cx: &Context<'_, O>,
    hops: &mut Hops,
    plain: &Plain,
    action: &PlainAction,
    len: usize,
    head: &mut Head,
) -> Option<PortId> {
    let way = hops.way(cx, action.hop).filter(|way| way.takes(len))?;
    let rewrite = PlainRewrite {
        macs: way.macs,
        addresses: action.addresses,
        ports: action.ports,
        net_delta: action.net_delta,
        transport_delta: action.transport_delta,
    };
    rewrite.apply(head, plain.proto);
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

/// A queue's action, compiled for one burst. It doesn't depend on the
/// connection, so what it leaves of a packet is told by masks. Words are as
/// packets have them in memory.
#[derive(Clone, Copy, Debug)]
pub(crate) struct QueueLane {
    proto: u8,
    /// What its packets carry, and which bits of that must agree.
    addresses: (u64, u64),
    ports: (u32, u32),
    /// What they get, and which bits they keep.
    new_addresses: (u64, u64),
    new_ports: (u32, u32),
    net_delta: u16,
    transport_delta: u16,
    way: Way,
}

impl QueueLane {
    /// `None`: the queue means nothing, or nothing for this lane.
    pub(crate) fn compile<O>(
        cx: &Context<'_, O>,
        hops: &mut Hops,
        action: Option<&QueueAction>,
    ) -> Option<Self> {
        let action = action?;
        let Delivery::Rewrite(Rewrite::V4(rewrite)) = action.delivery else { return None };
        let std::net::SocketAddr::V4(endpoint) = action.endpoint else { return None };
        let (ip, port) = (u64::from(endpoint.ip().to_bits()), u32::from(endpoint.port()));
        let ports_count = if port == 0 { 0 } else { u32::from(u16::MAX) };
        let (shift, port_shift) = match action.direction {
            Direction::Forward => (0, 0),
            Direction::Reply => (32, 16),
        };
        let side = |side: wire::Side| {
            (if side.source() { u64::MAX << 32 } else { 0 })
                | if side.destination() { u64::from(u32::MAX) } else { 0 }
        };
        // 64 bits of addresses and 32 of ports have the same halves.
        let port_side = rewrite.port_side.map_or(0, side);
        let new_ports = (port_side >> 48 << 16) as u32 | (port_side & 0xffff) as u32;
        Some(Self {
            proto: action.proto.number(),
            addresses: ((ip << shift).to_be(), (u64::from(u32::MAX) << shift).to_be()),
            ports: ((port << port_shift).to_be(), (ports_count << port_shift).to_be()),
            new_addresses: (u64::from_ne_bytes(rewrite.addresses), !side(rewrite.side).to_be()),
            new_ports: (u32::from_ne_bytes(rewrite.ports), !new_ports.to_be()),
            net_delta: rewrite.net_delta.to_be(),
            transport_delta: rewrite.transport_delta.to_be(),
            way: *hops.way(cx, action.hop)?,
        })
    }

    /// Whether the packet is one that the queue's rules may have matched: then
    /// software would do the same to it.
    #[inline(always)]
    fn carries(&self, plain: &Plain) -> bool {
        let (addresses, counted) = self.addresses;
        let (ports, counted_ports) = self.ports;
        ((plain.addresses ^ addresses) & counted)
            | u64::from((plain.ports ^ ports) & counted_ports)
            | u64::from(plain.proto ^ self.proto)
            == 0
    }

    /// Third pass, for a packet of a queue that means something: rewrites it;
    /// what it was. `None`, and nothing happens: the general way must be taken.
    #[inline(always)]
    pub(crate) fn pass(&self, station: Mac, frame: &mut [u8]) -> Option<Plain> {
        let len = frame.len();
        let head = frame.first_chunk_mut()?;
        let plain = Plain::of(head, len, station)?;
        if !self.carries(&plain) || !self.way.takes(len) {
            return None;
        }
        self.rewrite(&plain).apply(head, plain.proto);
        Some(plain)
    }

    /// Where its packets leave.
    #[inline(always)]
    pub(crate) const fn port(&self) -> PortId {
        self.way.port
    }

    #[inline(always)]
    fn rewrite(&self, plain: &Plain) -> PlainRewrite {
        let (addresses, kept) = self.new_addresses;
        let (ports, kept_ports) = self.new_ports;
        PlainRewrite {
            macs: self.way.macs,
            addresses: addresses | plain.addresses & kept,
            ports: ports | plain.ports & kept_ports,
            net_delta: self.net_delta,
            transport_delta: self.transport_delta,
        }
    }
}

/// The compiled actions of shared queues, by tag; those whose numbers agree
/// modulo the size take each other's place.
#[derive(Debug)]
pub(crate) struct SharedLanes {
    lanes: Box<[SharedLane]>,
}

/// When it was compiled: the era of the hops, and the changes of the table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Stamp {
    port: u16,
    tag: u16,
    era: u64,
    changes: u64,
}

#[derive(Clone, Copy, Debug, Default)]
struct SharedLane {
    stamp: Stamp,
    lane: Option<QueueLane>,
}

/// Compiled shared actions kept at once.
const SHARED_LANES: usize = 1024;

impl Default for SharedLanes {
    fn default() -> Self {
        Self { lanes: vec![SharedLane::default(); SHARED_LANES].into_boxed_slice() }
    }
}

impl SharedLanes {
    /// What is done to packets with `tag`, compiled if it was not since
    /// anything about it may have changed.
    #[inline]
    pub(crate) fn lane<O>(
        &mut self,
        cx: &Context<'_, O>,
        hops: &mut Hops,
        port: &PortShared,
        tag: u16,
    ) -> Option<&QueueLane> {
        let changes = port.queues.changes();
        let stamp = Stamp { port: cx.from.port.0, tag, era: hops.era(), changes };
        let place = self.lanes.get_mut(usize::from(tag) % SHARED_LANES)?;
        if place.stamp != stamp {
            let lane = QueueLane::compile(cx, hops, port.queues.get(tag).as_ref());
            *place = SharedLane { stamp, lane };
        }
        place.lane.as_ref()
    }
}
