//! The worker's side of a capture: it copies frames that fit a filter into a ring. A
//! worker without a capture only looks, once a round, whether one has begun.
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use arrayvec::ArrayVec;
use conntrack::ConnId;
use dpdk::Mbuf;
use flow::{HopId, InterfaceId, PortId, ServiceId, Transport};
use packet::PacketBuf;
use pipeline::{BURST, Outbox, Pipeline};
use splice::Record;
use state::{Counter, CounterKind, Counters, Offload, Shared, Source};
use wire::Headers;

use crate::outbox::MbufOutbox;

/// Bytes of a frame that are copied.
pub(crate) const SNAP: usize = 2048;
/// Frames that wait between a worker and the control thread.
pub(crate) const RING: usize = 512;
/// Counters of one packet that are noted.
const RAISED: usize = 8;

/// A frame that was caught.
pub(crate) struct Caught {
    pub(crate) time_ns: u64,
    pub(crate) port: PortId,
    pub(crate) leaves: bool,
    pub(crate) length: u32,
    pub(crate) bytes: ArrayVec<u8, SNAP>,
    /// The counters that the packet has raised, or the one because of which this leaves.
    pub(crate) raised: ArrayVec<Counter, RAISED>,
}

/// Which packets a worker catches.
#[derive(Clone, Debug, Default)]
pub(crate) struct Filter {
    pub(crate) port: Option<PortId>,
    pub(crate) protocol: Option<Transport>,
    pub(crate) address: Option<std::net::IpAddr>,
    pub(crate) l4_port: Option<u16>,
    pub(crate) service: Option<ServiceId>,
    pub(crate) before: bool,
    pub(crate) after: bool,
}

/// How a burst came to the worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Arrival {
    /// It has received it.
    Received,
    /// Another worker has received it.
    HandedOver,
}

impl Arrival {
    /// Serves `burst`.
    fn serve(
        self,
        pipeline: &mut Pipeline<Mbuf>,
        (source, burst): (Source, &mut ArrayVec<Mbuf, BURST>),
        now_ms: u64,
        outbox: &mut impl Outbox<Mbuf>,
    ) {
        match self {
            Self::Received => pipeline.process(source, burst, now_ms, outbox),
            Self::HandedOver => pipeline.process_handed_over(source, burst, now_ms, outbox),
        }
    }
}

/// One worker's part of a capture.
pub(crate) struct Catcher {
    pub(crate) filter: Filter,
    pub(crate) ring: rtrb::Producer<Caught>,
    /// Packets that found no room, of all workers.
    pub(crate) lost: Arc<AtomicU64>,
}

impl Filter {
    fn takes(&self, shared: &Shared, port: PortId, frame: &[u8]) -> bool {
        if self.port.is_some_and(|own| own != port) {
            return false;
        }
        let Self { protocol, address, l4_port, service, .. } = self;
        if protocol.is_none() && address.is_none() && l4_port.is_none() && service.is_none() {
            return true;
        }
        let flow = Headers::parse(frame).ok().and_then(|headers| headers.flow(frame));
        let Some(flow) = flow else { return false };
        let ends = [flow.src(), flow.dst()];
        let binding =
            || shared.table().lookup(&flow).and_then(|hit| shared.table().binding(hit.conn));
        protocol.is_none_or(|own| own == flow.proto())
            && l4_port.is_none_or(|own| ends.iter().any(|end| end.port() == own))
            && address.is_none_or(|own| {
                ends.iter().any(|end| end.ip() == own)
                    || binding().is_some_and(|found| found.client.ip() == own)
            })
            && service.is_none_or(|own| {
                let snapshot = shared.snapshot();
                let to = snapshot.services.lookup(&flow).map(service::Service::id);
                to == Some(own) || binding().is_some_and(|found| found.service == own)
            })
    }
}

impl Catcher {
    /// Whether the control thread has ended the capture.
    pub(crate) fn is_over(&self) -> bool {
        self.ring.is_abandoned()
    }

    /// Serves `burst`: packets that fit the filter one by one, so that the counters and
    /// frames of each are known.
    pub(crate) fn process(
        &mut self,
        shared: &Shared,
        (pipeline, outbox): (&mut Pipeline<Mbuf>, &mut MbufOutbox),
        (arrival, source): (Arrival, Source),
        burst: &mut ArrayVec<Mbuf, BURST>,
        now_ms: u64,
    ) {
        let mut others: ArrayVec<Mbuf, BURST> = ArrayVec::new();
        for packet in burst.drain(..) {
            if !self.filter.takes(shared, source.port, packet.bytes()) {
                others.push(packet);
                continue;
            }
            // Packets stay in their order.
            arrival.serve(pipeline, (source, &mut others), now_ms, outbox);
            let mut one: ArrayVec<Mbuf, BURST> = ArrayVec::new();
            let mut caught = caught(source.port, false, packet.bytes());
            one.push(packet);
            let before = values(&outbox.counters);
            let mut sent = ArrayVec::new();
            let mut catching = CatchingOutbox { out: outbox, sent: &mut sent, handed_over: false };
            arrival.serve(pipeline, (source, &mut one), now_ms, &mut catching);
            // The worker whose it is catches it.
            if catching.handed_over {
                continue;
            }
            caught.raised = raised(&before, &outbox.counters);
            for sent in &mut sent {
                sent.raised = caught.raised.clone();
            }
            // What leaves takes its comment from the packet before it.
            if self.filter.before && !self.put(caught) {
                continue;
            }
            if self.filter.after {
                for sent in sent.drain(..) {
                    self.put(sent);
                }
            }
        }
        arrival.serve(pipeline, (source, &mut others), now_ms, outbox);
    }

    /// Whether there was room.
    fn put(&mut self, caught: Caught) -> bool {
        let has_room = self.ring.push(caught).is_ok();
        if !has_room {
            self.lost.fetch_add(1, Ordering::Relaxed);
        }
        has_room
    }
}

fn caught(port: PortId, leaves: bool, frame: &[u8]) -> Caught {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Caught {
        time_ns: u64::try_from(since.as_nanos()).unwrap_or(u64::MAX),
        port,
        leaves,
        length: u32::try_from(frame.len()).unwrap_or(u32::MAX),
        bytes: frame.iter().take(SNAP).copied().collect(),
        raised: ArrayVec::new(),
    }
}

fn values(counters: &Counters) -> [u64; Counter::ALL.len()] {
    let mut values = [0; Counter::ALL.len()];
    for (value, counter) in values.iter_mut().zip(Counter::ALL) {
        *value = counters.get(*counter);
    }
    values
}

/// The counters, beside those of all packets, that are greater than `before`.
fn raised(before: &[u64], counters: &Counters) -> ArrayVec<Counter, RAISED> {
    let all = Counter::ALL.iter().zip(before);
    let raised = all.filter(|(counter, before)| {
        !matches!(counter.kind(), CounterKind::In | CounterKind::Sent | CounterKind::Level)
            && counters.get(**counter) > **before
    });
    raised.map(|(counter, _)| *counter).take(RAISED).collect()
}

/// The way out of a worker, past which what leaves because of one packet is copied.
struct CatchingOutbox<'a> {
    out: &'a mut MbufOutbox,
    sent: &'a mut ArrayVec<Caught, 4>,
    handed_over: bool,
}

impl Outbox<Mbuf> for CatchingOutbox<'_> {
    fn send(&mut self, port: PortId, packet: Mbuf) {
        if !self.sent.is_full() {
            self.sent.push(caught(port, true, packet.bytes()));
        }
        self.out.send(port, packet);
    }

    fn fresh(&mut self, len: usize) -> Option<Mbuf> {
        self.out.fresh(len)
    }

    fn offload(&mut self, conn: ConnId, reason: Offload) -> bool {
        self.out.offload(conn, reason)
    }

    fn resolve(&mut self, hop: HopId) {
        self.out.resolve(hop);
    }

    fn hand_over(&mut self, worker: usize, from: Source, packet: Mbuf) -> bool {
        self.handed_over = self.out.hand_over(worker, from, packet);
        self.handed_over
    }

    fn to_kernel(&mut self, interface: InterfaceId, packet: Mbuf) -> bool {
        self.out.to_kernel(interface, packet)
    }

    fn to_terminator(&mut self, service: Option<ServiceId>, packet: Mbuf) -> bool {
        self.out.to_terminator(service, packet)
    }

    fn log(&mut self, record: &Record) -> bool {
        self.out.log(record)
    }
}
