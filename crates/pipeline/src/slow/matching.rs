//! Which connection or backend a packet belongs to: as the NIC's mark, the receive
//! queue or the connection table says.
//!
//! Next: `act` for packets that are matched, `miss` for all others.
use arrayvec::ArrayVec;
use conntrack::Hit;
use flow::{Direction, InterfaceId};
use state::{Counter, PortShared, QueueAction};
use wire::{FlowKey, Fragment, Headers, TcpFlags};

use crate::context::Context;
use crate::pipeline::BURST;
use crate::sampler::Sampler;
use crate::slow::parse::Kind;
use crate::verdict::Verdict;

/// What the stages know of a packet on the slow path. The packet itself stays
/// where it is, so that the burst keeps its order.
pub(crate) struct SlowPacket {
    pub(crate) headers: Headers,
    pub(crate) interface: InterfaceId,
    pub(crate) kind: Kind,
    /// What the NIC reported with the packet.
    pub(crate) mark: Option<u32>,
    /// What a TCP or UDP packet was matched by: a connection that a mark named or
    /// that the table has, a queue, or nothing.
    pub(crate) verdict: Verdict,
    /// The connection of a packet that was matched by queue and chosen as a sample.
    pub(crate) sample: Option<Hit>,
}

/// The packets of one burst that take the slow path.
pub(crate) type SlowPackets = ArrayVec<SlowPacket, BURST>;

/// Packets that change a connection's state are always looked up.
pub(crate) const DECISIVE: u8 = TcpFlags::SYN | TcpFlags::FIN | TcpFlags::RST;

/// Matches all flows among `packets`. Packets that the NIC reported nothing about are
/// looked up together, so that their cache misses overlap.
pub(crate) fn match_burst<O>(
    cx: &Context<'_, O>,
    sampler: &mut Sampler,
    packets: &mut [SlowPacket],
) {
    if packets.is_empty() {
        return;
    }
    if let Some(port) = cx.shared.port(cx.from.port) {
        for packet in packets.iter_mut() {
            if let Kind::Flow(key) = &packet.kind {
                packet.verdict = told_by_nic(cx, port, &packet.headers, packet.mark, key);
            }
        }
    }
    let mut keys: ArrayVec<FlowKey, BURST> = ArrayVec::new();
    let mut places: ArrayVec<usize, BURST> = ArrayVec::new();
    for (place, packet) in packets.iter().enumerate() {
        if let Kind::Flow(key) = &packet.kind {
            if to_look_up(cx, sampler, key, packet.verdict) {
                keys.push(*key);
                places.push(place);
            }
        }
    }
    if keys.is_empty() {
        return;
    }
    let mut hits = [None; BURST];
    cx.shared.table().lookup_burst(&keys, &mut hits);
    for (&place, hit) in places.iter().zip(hits) {
        let Some(packet) = packets.get_mut(place) else { continue };
        match (&mut packet.verdict, hit) {
            (Verdict::Queued | Verdict::Shared(_), hit) => packet.sample = hit,
            (verdict, Some(hit)) => {
                // The lookup did not read the record; the next stage does.
                cx.shared.table().prefetch(hit.conn);
                cx.count(Counter::LookedUp);
                *verdict = Verdict::Found(hit);
            }
            (verdict, None) => *verdict = Verdict::Unknown,
        }
    }
}

/// What mark or queue say, before the key is compared with the connection's.
#[inline]
fn told_by_nic<O>(
    cx: &Context<'_, O>,
    port: &PortShared,
    headers: &Headers,
    mark: Option<u32>,
    key: &FlowKey,
) -> Verdict {
    if headers.tcp_flags.any(DECISIVE) || headers.fragment != Fragment::Whole {
        return Verdict::Unknown;
    }
    if let Some(marked) = mark.and_then(|mark| port.marks.get(mark)) {
        cx.shared.table().prefetch(marked.conn);
        return Verdict::Marked(Hit { conn: marked.conn, direction: marked.direction });
    }
    match told_action(cx, port, mark) {
        Some(action) if fits(&action, key) => return Verdict::Queued,
        Some(_) => cx.count(Counter::QueueStale),
        // With encoding `queue` some cards report the mark 0 all the same.
        None if mark.is_some() => cx.count(Counter::MarkStale),
        None => {}
    }
    Verdict::Unknown
}

/// What the mark of a shared queue means, or else the queue.
pub(crate) fn told_action<O>(
    cx: &Context<'_, O>,
    port: &PortShared,
    mark: Option<u32>,
) -> Option<QueueAction> {
    let tag = mark.and_then(|mark| port.queues.tag(mark));
    port.queues.get(tag.unwrap_or(cx.from.queue))
}

/// Whether the queue's rules may have matched the packet: then software would do the
/// same to it.
#[inline]
fn fits(action: &QueueAction, key: &FlowKey) -> bool {
    let carried = match action.direction {
        Direction::Forward => key.dst(),
        Direction::Reply => key.src(),
    };
    let port = action.endpoint.port();
    key.proto() == action.proto
        && carried.ip() == action.endpoint.ip()
        && (port == 0 || port == carried.port())
}

/// Checks what the NIC reported, and returns whether the connection table must be
/// asked.
#[inline]
fn to_look_up<O>(
    cx: &Context<'_, O>,
    sampler: &mut Sampler,
    key: &FlowKey,
    verdict: Verdict,
) -> bool {
    match verdict {
        Verdict::Marked(hit) if cx.shared.table().carries(hit, key) => {
            cx.count(Counter::MatchedByMark);
            false
        }
        Verdict::Marked(_) => {
            cx.count(Counter::MarkStale);
            true
        }
        Verdict::Queued | Verdict::Shared(_) => {
            cx.count(Counter::MatchedByQueue);
            let sampled = sampler.takes(cx.snapshot.sample);
            if sampled {
                cx.count(Counter::Sampled);
            }
            sampled
        }
        _ => true,
    }
}
