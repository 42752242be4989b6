//! The fast lane: plain packets (`wire::Plain`) of known connections. Three
//! passes over the burst, each of which leaves its cache misses to the next:
//! look at the header and fetch what the NIC or the table's index says; find
//! those that the NIC didn't match; act. Whatever isn't as usual is left, whole
//! and untouched, to the general way, which does the same to these packets.
use arrayvec::ArrayVec;
use conntrack::{Hit, PlainKey};
use packet::PacketBuf;
use service::{Delivery, Direction};
use wire::{FlowKey, FlowV4, Plain, PlainRewrite, Rewrite, TcpFlags, Transport};

use crate::context::Context;
use crate::counters::Counter;
use crate::encoding::QueueAction;
use crate::hops::{Hops, Way};
use crate::pipeline::BURST;
use crate::{Outbox, PortShared};

/// A plain packet on its way through the passes.
pub(crate) struct Short<B> {
    pub(crate) buf: B,
    plain: Plain,
    told: Told,
}

/// Who said what about a packet.
#[derive(Clone, Copy, Debug)]
enum Told {
    /// Nobody anything, yet.
    Nothing,
    /// The NIC's mark.
    Mark(Hit),
    /// The receive queue, if the packet is one its rules may have matched.
    Queue,
    /// The connection table.
    Table(Hit),
}

/// What happened to a burst, counted at its end.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Tally {
    marked: u64,
    queued: u64,
    looked_up: u64,
    forwarded: u64,
}

/// The plain packets of one burst, in order.
pub(crate) type Shorts<B> = ArrayVec<Short<B>, BURST>;

impl<B: PacketBuf> Short<B> {
    /// First pass, for one packet. Gives the buffer back if what the NIC says
    /// of it isn't so.
    #[inline(always)]
    pub(crate) fn new<O>(
        cx: &Context<'_, O>,
        port: &PortShared,
        lane: &Option<QueueLane>,
        buf: B,
        plain: Plain,
    ) -> Result<Self, B> {
        let mark = buf.mark();
        let told = match mark.and_then(|mark| port.marks.get(mark)) {
            Some(marked) => {
                cx.shared.table.prefetch(marked.conn);
                Told::Mark(Hit { conn: marked.conn, direction: marked.direction })
            }
            None => match lane {
                Some(lane) if lane.carries(&plain) => Told::Queue,
                _ if mark.is_none() && cx.queue.is_none() => Told::Nothing,
                // What the NIC says is stale: the general way counts that.
                _ => return Err(buf),
            },
        };
        Ok(Self { buf, plain, told })
    }

    /// The connection, if one was named.
    #[inline]
    pub(crate) fn hit(&self) -> Option<Hit> {
        match self.told {
            Told::Mark(hit) | Told::Table(hit) => Some(hit),
            Told::Nothing | Told::Queue => None,
        }
    }

    /// Whether it goes by what its queue means.
    #[inline]
    pub(crate) const fn is_queued(&self) -> bool {
        matches!(self.told, Told::Queue)
    }

    /// The TCP flags as the connection table wants them.
    pub(crate) fn flags(&self) -> Option<TcpFlags> {
        (self.plain.proto == Transport::Tcp.number()).then_some(self.plain.flags)
    }

    /// The packet's 5-tuple.
    pub(crate) fn key(&self) -> FlowKey {
        let Plain { addresses, ports, proto, .. } = self.plain;
        FlowKey::V4(FlowV4 {
            src: ((addresses >> 32) as u32).into(),
            dst: (addresses as u32).into(),
            sport: (ports >> 16) as u16,
            dport: ports as u16,
            proto: Transport::from_number(proto).unwrap_or(Transport::Tcp),
        })
    }
}

/// Second pass: those that nobody has told anything about are looked up
/// together.
#[inline(always)]
pub(crate) fn find<B: PacketBuf, O>(cx: &Context<'_, O>, shorts: &mut Shorts<B>) {
    if shorts.iter().all(|short| !matches!(short.told, Told::Nothing)) {
        return;
    }
    let mut keys: ArrayVec<FlowKey, BURST> = ArrayVec::new();
    for short in shorts.iter().filter(|short| matches!(short.told, Told::Nothing)) {
        keys.push(short.key());
    }
    let mut hits = [None; BURST];
    cx.shared.table.lookup_burst(&keys, &mut hits);
    let unknown = shorts.iter_mut().filter(|short| matches!(short.told, Told::Nothing));
    for (short, hit) in unknown.zip(hits) {
        if let Some(hit) = hit {
            short.told = Told::Table(hit);
        }
    }
}

/// Third pass, for one packet: rewrites and sends it. Gives it back untouched
/// if the general way must be taken.
#[inline(always)]
pub(crate) fn act<B: PacketBuf, O: Outbox<B>>(
    cx: &mut Context<'_, O>,
    hops: &mut Hops,
    lane: &Option<QueueLane>,
    tally: &mut Tally,
    mut short: Short<B>,
) -> Result<(), B> {
    let Plain { addresses, ports, length, proto, .. } = short.plain;
    let (way, rewrite, count) = match (short.told, lane) {
        (Told::Mark(hit), _) | (Told::Table(hit), _) => {
            let key = PlainKey { addresses, ports, proto };
            let Some(action) = cx.shared.table.plain(hit, &key, cx.now_ms) else {
                return Err(short.buf);
            };
            let Some(way) = hops.way(cx, action.hop) else { return Err(short.buf) };
            let rewrite = PlainRewrite {
                macs: way.macs,
                addresses: action.addresses,
                ports: action.ports,
                net_delta: action.net_delta,
                transport_delta: action.transport_delta,
            };
            let marked = matches!(short.told, Told::Mark(_));
            (way, rewrite, if marked { &mut tally.marked } else { &mut tally.looked_up })
        }
        (Told::Queue, Some(lane)) => (&lane.way, lane.rewrite(&short.plain), &mut tally.queued),
        _ => return Err(short.buf),
    };
    if length > way.mtu || !rewrite.apply(short.buf.bytes_mut(), proto) {
        return Err(short.buf);
    }
    *count += 1;
    tally.forwarded += 1;
    cx.out.send(way.port, short.buf);
    Ok(())
}

impl Tally {
    /// Adds up at the end of a burst.
    #[inline]
    pub(crate) fn count<O>(&self, cx: &Context<'_, O>) {
        cx.counters.add(Counter::ForwardedPackets, self.forwarded);
        for (counter, by) in [
            (Counter::MatchedByMark, self.marked),
            (Counter::MatchedByQueue, self.queued),
            (Counter::LookedUp, self.looked_up),
        ] {
            if by > 0 {
                cx.counters.add(counter, by);
            }
        }
    }
}

/// A queue's action, compiled for one burst. It doesn't depend on the
/// connection, so what it leaves of a packet is told by masks.
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
            addresses: (ip << shift, u64::from(u32::MAX) << shift),
            ports: (port << port_shift, ports_count << port_shift),
            new_addresses: (u64::from_be_bytes(rewrite.addresses), !side(rewrite.side)),
            new_ports: (u32::from_be_bytes(rewrite.ports), !new_ports),
            net_delta: rewrite.net_delta,
            transport_delta: rewrite.transport_delta,
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
