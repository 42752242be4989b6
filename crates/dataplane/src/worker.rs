//! A worker: algorithm 1 of the HNLB paper around the pipeline.
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use arrayvec::ArrayVec;
use dpdk::{Batch, Mbuf, RxQueue, cycles};
use flow::PortId;
use pipeline::{Outbox, Pipeline};
use state::{Shared, Source};

use crate::balancing::Census;
use crate::catcher::{Arrival, Catcher};
use crate::clock::Clock;
use crate::handover::{self, HandedOver};
use crate::idle::{Bell, Idle, Naps, Waiter};
use crate::outbox::MbufOutbox;
use crate::poll_schedule::PollSchedule;
use crate::rings::drain;
use crate::utilization::{LoopCounters, LoopMeter};

/// Most packets that can be received at once; the configuration says how many
/// are.
pub(crate) const BURST: usize = pipeline::BURST;

/// Packets sent for one other thread in one round.
const INJECTED_PER_ROUND: usize = 32;

/// A packet of another thread's, to be sent by a worker since the send queues are theirs.
pub(crate) type Injected = (PortId, Mbuf);

/// One receive queue of this worker's.
pub(crate) struct PolledQueue {
    pub(crate) source: Source,
    pub(crate) rx: RxQueue,
    /// Counts its packets by bucket; `None`: the port's buckets do not move.
    pub(crate) census: Option<Census>,
}

/// How a worker's loop runs.
pub(crate) struct LoopSettings {
    pub(crate) counters: Arc<LoopCounters>,
    pub(crate) clock: Clock,
    pub(crate) idle: Idle,
    /// Rung by all threads that give it packets, if they do.
    pub(crate) bell: Option<Arc<Bell>>,
    pub(crate) naps: Arc<Naps>,
    /// Packets received at once, at most [`BURST`]: the paper's B for one queue.
    pub(crate) burst: usize,
}

/// What a worker takes from other threads.
pub(crate) struct Taken {
    /// What the keeper and the kernel send, if this worker sends for them.
    pub(crate) injected: Vec<rtrb::Consumer<Injected>>,
    /// What other workers have received for this one.
    pub(crate) handed_over: Vec<rtrb::Consumer<HandedOver>>,
    /// Its parts of captures, as they begin.
    pub(crate) catchers: rtrb::Consumer<Catcher>,
}

/// Everything one worker owns.
pub(crate) struct Worker {
    queues: Vec<PolledQueue>,
    pipeline: Pipeline<Mbuf>,
    outbox: MbufOutbox,
    taken: Taken,
    /// The worker's part of the capture that goes on.
    catcher: Option<Catcher>,
    shared: Arc<Shared>,
    settings: LoopSettings,
}

/// What changes from one iteration to the next.
struct Turn {
    meter: LoopMeter,
    /// The last millisecond that was ticked.
    ticked_ms: u64,
    received: Batch<BURST>,
    handed_over: ArrayVec<Mbuf, BURST>,
    schedule: PollSchedule,
}

impl Worker {
    /// A worker that polls `queues`, and sends by `outbox` what comes of their
    /// packets and what it has `taken`.
    pub(crate) const fn new(
        queues: Vec<PolledQueue>,
        pipeline: Pipeline<Mbuf>,
        outbox: MbufOutbox,
        taken: Taken,
        shared: Arc<Shared>,
        settings: LoopSettings,
    ) -> Self {
        Self { queues, pipeline, outbox, taken, catcher: None, shared, settings }
    }

    /// Polls its queues round robin until `stop`.
    pub(crate) fn run(mut self, stop: &AtomicBool) {
        let mut turn = Turn {
            meter: LoopMeter::new(Arc::clone(&self.settings.counters), cycles()),
            ticked_ms: 0,
            received: Batch::default(),
            handed_over: ArrayVec::new(),
            schedule: PollSchedule::new(self.queues.len()),
        };
        let LoopSettings { idle, bell, naps, .. } = &self.settings;
        let mut waiter = Waiter::new(*idle, bell.clone(), Arc::clone(naps));
        while !stop.load(Ordering::Relaxed) {
            self.pipeline.begin();
            turn.schedule.begin();
            self.follow_captures();
            let mut found = self.send_injected();
            for at in 0..self.queues.len() {
                if turn.schedule.asks(at) {
                    found += self.iterate(at, &mut turn);
                }
            }
            found += self.serve_handed_over(&mut turn);
            self.tick(&mut turn);
            waiter.round(found);
        }
    }

    /// One iteration of algorithm 1, on the queue `at`.
    #[inline]
    fn iterate(&mut self, at: usize, turn: &mut Turn) -> usize {
        let Self { queues, pipeline, outbox, settings, shared, catcher, .. } = self;
        let Some(PolledQueue { source, rx, census }) = queues.get_mut(at) else { return 0 };
        let port = shared.ports().get(usize::from(source.port.0));
        if port.is_some_and(|port| !port.gates.lets(source.queue)) {
            return 0;
        }
        let Turn { meter, received, schedule, .. } = turn;
        let (source, most) = (*source, settings.burst);
        let found = meter.iterate(cycles, |before| {
            let found = rx.rx_at_most(received, most);
            // Frames of several segments may all have been dropped.
            if !received.is_empty() {
                if let Some(census) = census {
                    census.look_at(received);
                }
                let now_ms = settings.clock.at_ms(before);
                let packets = received.packets();
                match catcher {
                    None => pipeline.process(source, packets, now_ms, outbox),
                    Some(catcher) => {
                        let from = (Arrival::Received, source);
                        catcher.process(shared, (pipeline, outbox), from, packets, now_ms)
                    }
                }
                outbox.flush();
            }
            found
        });
        schedule.polled(at, found, most);
        if let Some(port) = port {
            match found {
                0 => port.queue_epochs.polled_nothing(source.queue, || rx.was_empty()),
                _ => port.queue_epochs.polled(source.queue, found),
            }
        }
        found
    }

    /// Begins a capture that has been ordered, and ends one that is over.
    fn follow_captures(&mut self) {
        if self.catcher.as_ref().is_some_and(Catcher::is_over) {
            self.catcher = None;
        }
        if let Ok(catcher) = self.taken.catchers.pop() {
            self.catcher = Some(catcher);
        }
    }

    /// Sends what other threads want sent.
    fn send_injected(&mut self) -> usize {
        let mut sent = 0;
        for (port, packet) in drain(&mut self.taken.injected, INJECTED_PER_ROUND) {
            self.outbox.send(port, packet);
            sent += 1;
        }
        if sent > 0 {
            self.outbox.flush();
        }
        sent
    }

    /// Serves what other workers have received for this one; one burst of each.
    fn serve_handed_over(&mut self, turn: &mut Turn) -> usize {
        let Self { taken, pipeline, outbox, settings, shared, catcher, .. } = self;
        let Turn { meter, handed_over, .. } = turn;
        let mut found = 0;
        for ring in taken.handed_over.iter_mut().filter(|ring| !ring.is_empty()) {
            found += meter.iterate(cycles, |before| {
                let Some(source) = handover::take(ring, handed_over) else { return 0 };
                let (found, now_ms) = (handed_over.len(), settings.clock.at_ms(before));
                match catcher {
                    None => pipeline.process_handed_over(source, handed_over, now_ms, outbox),
                    Some(catcher) => {
                        let from = (Arrival::HandedOver, source);
                        catcher.process(shared, (pipeline, outbox), from, handed_over, now_ms)
                    }
                }
                outbox.flush();
                found
            });
        }
        found
    }

    fn tick(&mut self, turn: &mut Turn) {
        let now_ms = self.settings.clock.at_ms(turn.meter.last());
        if now_ms != turn.ticked_ms {
            turn.ticked_ms = now_ms;
            self.pipeline.tick(now_ms, &mut self.outbox);
            self.outbox.flush();
        }
    }
}
