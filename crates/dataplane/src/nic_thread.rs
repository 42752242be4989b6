//! The emulated NIC's loop: frames from the wire to the host queues that the
//! match tables name, and what the host sends to the wire.
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use dpdk::{Batch, Consumer, Producer, RxQueue, TxQueue};
use nic::{Delivery, Nic};
use packet::PacketBuf;

use crate::clock::Clock;
use crate::idle::{Idle, Waiter};

/// Frames moved at once.
pub(crate) const BURST: usize = 32;

/// What the loop lost, and where.
#[derive(Debug, Default)]
pub(crate) struct NicThreadCounters {
    /// Frames a full host queue had no room for: `rx_missed` of a real card.
    pub(crate) queue_full: AtomicU64,
    /// Frames that the wire did not take.
    pub(crate) wire_full: AtomicU64,
}

impl NicThreadCounters {
    /// Name and counter of each.
    pub(crate) fn named(&self) -> [(&'static str, &AtomicU64); 2] {
        [("queue_full", &self.queue_full), ("wire_full", &self.wire_full)]
    }
}

/// Everything the loop owns.
pub(crate) struct NicThread {
    pub(crate) nic: Nic,
    pub(crate) wire_rx: RxQueue,
    pub(crate) wire_tx: TxQueue,
    pub(crate) to_host: Vec<Producer>,
    pub(crate) from_host: Vec<Consumer>,
    pub(crate) counters: Arc<NicThreadCounters>,
    pub(crate) clock: Clock,
    pub(crate) idle: Idle,
}

/// One frame's place while the burst is sorted into queues.
struct Sorted {
    received: Batch<BURST>,
    queues: Vec<Batch<BURST>>,
    sending: Batch<BURST>,
}

impl NicThread {
    /// Runs until `stop`.
    pub(crate) fn run(mut self, stop: &AtomicBool) {
        let mut sorted = Sorted {
            received: Batch::default(),
            queues: (0..self.to_host.len()).map(|_| Batch::default()).collect(),
            sending: Batch::default(),
        };
        let mut waiter = Waiter::new(self.idle);
        while !stop.load(Ordering::Relaxed) {
            let moved = self.receive(&mut sorted) + self.send(&mut sorted);
            waiter.round(moved);
        }
    }

    /// From the wire to the host queues.
    fn receive(&mut self, sorted: &mut Sorted) -> usize {
        let found = self.wire_rx.rx_burst(&mut sorted.received);
        if found == 0 {
            return 0;
        }
        let mut deliveries = [Delivery::default(); BURST];
        let frames = sorted.received.iter().map(PacketBuf::bytes);
        self.nic.receive_burst(frames, self.clock.now_ns(), &mut deliveries);
        for (mut mbuf, delivery) in sorted.received.drain().zip(deliveries) {
            let Some(queue) = sorted.queues.get_mut(usize::from(delivery.queue)) else { continue };
            mbuf.set_mark(delivery.mark);
            // A burst is no longer than a queue's batch, and that is empty before.
            drop(queue.push(mbuf));
        }
        self.deliver(sorted);
        found
    }

    fn deliver(&mut self, sorted: &mut Sorted) {
        for (batch, ring) in sorted.queues.iter_mut().zip(&mut self.to_host) {
            if batch.is_empty() {
                continue;
            }
            ring.enqueue_burst(batch);
            let lost = batch.len();
            if lost > 0 {
                self.counters.queue_full.fetch_add(lost as u64, Ordering::Relaxed);
                batch.clear();
            }
        }
    }

    /// From the host to the wire.
    fn send(&mut self, sorted: &mut Sorted) -> usize {
        let mut moved = 0;
        for ring in &mut self.from_host {
            moved += ring.dequeue_burst(&mut sorted.sending);
            self.wire_tx.tx_burst(&mut sorted.sending);
            let lost = sorted.sending.len();
            if lost > 0 {
                self.counters.wire_full.fetch_add(lost as u64, Ordering::Relaxed);
                sorted.sending.clear();
            }
        }
        moved
    }
}
