//! Match stage: which connection or backend a packet belongs to: told by the
//! NIC's mark, told by the receive queue, or found in the connection table.
use arrayvec::ArrayVec;
use conntrack::Hit;
use flow::{Direction, InterfaceId};
use state::{Counter, PortShared, QueueAction};
use wire::{FlowKey, Fragment, Headers, TcpFlags};

use crate::context::Context;
use crate::parse::Kind;
use crate::pipeline::BURST;
use crate::sampler::Sampler;

/// What the stages know of a packet on its general way. The packet itself
/// stays where it is, so that the burst keeps its order.
pub(crate) struct Job {
    pub(crate) headers: Headers,
    pub(crate) interface: InterfaceId,
    pub(crate) kind: Kind,
    /// What the NIC reported with it.
    pub(crate) mark: Option<u32>,
    pub(crate) found: Found,
}

/// The packets of one burst that go the general way.
pub(crate) type Jobs = ArrayVec<Job, BURST>;

/// The result of matching.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Found {
    /// Nothing: the miss stage decides.
    Nothing,
    /// A connection.
    Conn(Hit),
    /// The backend that the receive queue means, and the connection if this
    /// packet was chosen as a sample.
    Queue(Option<Hit>),
}

/// Packets that change a connection's state are always looked up.
const DECISIVE: u8 = TcpFlags::SYN | TcpFlags::FIN | TcpFlags::RST;

/// Matches all flows among `jobs`. Those that the NIC has not told anything about are
/// looked up together, so that their cache misses overlap.
pub(crate) fn match_burst<O>(cx: &Context<'_, O>, sampler: &mut Sampler, jobs: &mut Jobs) {
    if jobs.is_empty() {
        return;
    }
    if let Some(port) = cx.shared.port(cx.from.port) {
        for job in jobs.iter_mut() {
            if let Kind::Flow(key) = &job.kind {
                job.found = told_by_nic(cx, port, &job.headers, job.mark, key);
            }
        }
    }
    let mut keys: ArrayVec<FlowKey, BURST> = ArrayVec::new();
    let mut places: ArrayVec<usize, BURST> = ArrayVec::new();
    for (place, job) in jobs.iter().enumerate() {
        if let Kind::Flow(key) = &job.kind {
            if to_look_up(cx, sampler, key, job.found) {
                keys.push(*key);
                places.push(place);
            }
        }
    }
    if keys.is_empty() {
        return;
    }
    let mut hits = [None; BURST];
    cx.shared.table.lookup_burst(&keys, &mut hits);
    for (&place, hit) in places.iter().zip(hits) {
        let Some(job) = jobs.get_mut(place) else { continue };
        match (&mut job.found, hit) {
            (Found::Queue(sample), hit) => *sample = hit,
            (found, Some(hit)) => {
                // The lookup did not read the record; what comes next does.
                cx.shared.table.prefetch(hit.conn);
                cx.count(Counter::LookedUp);
                *found = Found::Conn(hit);
            }
            (found, None) => *found = Found::Nothing,
        }
    }
}

/// What mark or queue say, not yet compared with the connection.
#[inline]
fn told_by_nic<O>(
    cx: &Context<'_, O>,
    port: &PortShared,
    headers: &Headers,
    mark: Option<u32>,
    key: &FlowKey,
) -> Found {
    if headers.tcp_flags.any(DECISIVE) || headers.fragment != Fragment::Whole {
        return Found::Nothing;
    }
    if let Some(marked) = mark.and_then(|mark| port.marks.get(mark)) {
        cx.shared.table.prefetch(marked.conn);
        return Found::Conn(Hit { conn: marked.conn, direction: marked.direction });
    }
    match told_action(cx, port, mark) {
        Some(action) if fits(&action, key) => return Found::Queue(None),
        Some(_) => cx.count(Counter::QueueStale),
        // With encoding `queue` some cards report a mark all the same, 0.
        None if mark.is_some() => cx.count(Counter::MarkStale),
        None => {}
    }
    Found::Nothing
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

/// Whether the packet is one that the queue's rules may have matched: then
/// software would do the same to it.
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

/// Checks what the NIC has told; whether the connection table must be asked.
#[inline]
fn to_look_up<O>(cx: &Context<'_, O>, sampler: &mut Sampler, key: &FlowKey, found: Found) -> bool {
    match found {
        Found::Conn(hit) if cx.shared.table.carries(hit, key) => {
            cx.count(Counter::MatchedByMark);
            false
        }
        Found::Conn(_) => {
            cx.count(Counter::MarkStale);
            true
        }
        Found::Queue(_) => {
            cx.count(Counter::MatchedByQueue);
            let sampled = sampler.takes(cx.snapshot.sample);
            if sampled {
                cx.count(Counter::Sampled);
            }
            sampled
        }
        Found::Nothing => true,
    }
}
