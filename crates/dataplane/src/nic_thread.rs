//! The emulated NIC's loop: frames from the wire to the host queues or the wires
//! that the match tables name, and what the host and the NICs of other ports
//! send to the wire.
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use dpdk::Batch;
use nic::{Disposition, Nic};
use packet::PacketBuf;
use state::{CounterSet, counters};

use crate::clock::Clock;
use crate::device::Ends;
use crate::idle::{Bell, Idle, Waiter};

/// Frames moved at once.
pub(crate) const BURST: usize = 32;

counters! {
    /// Where the loop lost frames.
    pub(crate) enum NicCounter {
        Dropped {
            QueueFull "queue_full" "Frames a full host queue had no room for: rx_missed of a real card.",
            WireFull "wire_full" "Frames that the wire did not take, or that had no room in front for a tunnel's headers.",
        }
    }
}

/// Everything the loop owns.
pub(crate) struct NicThread {
    nic: Nic,
    ends: Ends,
    counters: Arc<CounterSet<NicCounter>>,
    clock: Clock,
    idle: Idle,
    /// Wakes the worker that polls the host queues.
    bell: Option<Arc<Bell>>,
}

/// One frame's place while the burst is sorted into queues.
struct Sorted {
    received: Batch<BURST>,
    queues: Vec<Batch<BURST>>,
    /// For the other ports.
    ports: Vec<Batch<BURST>>,
    /// For this port's wire.
    sending: Batch<BURST>,
}

impl NicThread {
    /// The loop of `nic` between these ends.
    pub(crate) fn new(
        nic: Nic,
        ends: Ends,
        counters: Arc<CounterSet<NicCounter>>,
        clock: Clock,
        (idle, bell): (Idle, Option<Arc<Bell>>),
    ) -> Self {
        Self { nic, ends, counters, clock, idle, bell }
    }

    /// Runs until `stop`.
    pub(crate) fn run(mut self, stop: &AtomicBool) {
        let mut sorted = Sorted {
            received: Batch::default(),
            queues: (0..self.ends.to_host.len()).map(|_| Batch::default()).collect(),
            ports: (0..self.ends.to_ports.len()).map(|_| Batch::default()).collect(),
            sending: Batch::default(),
        };
        let mut waiter = Waiter::new(self.idle, None, Arc::default());
        while !stop.load(Ordering::Relaxed) {
            let moved = self.receive(&mut sorted) + self.send(&mut sorted);
            waiter.round(moved);
        }
    }

    /// From the wire to the host queues.
    fn receive(&mut self, sorted: &mut Sorted) -> usize {
        let found = self.ends.wire_rx.rx_burst(&mut sorted.received);
        if found == 0 {
            return 0;
        }
        let mut dispositions: [Disposition; BURST] = Default::default();
        let frames = sorted.received.iter().map(PacketBuf::bytes);
        self.nic.receive_burst(frames, self.clock.now_ns(), &mut dispositions);
        for (mut mbuf, disposition) in sorted.received.drain().zip(dispositions) {
            if disposition.dropped.is_some() {
                continue;
            }
            if !disposition.change(&mut mbuf) {
                self.counters.count(NicCounter::WireFull);
                continue;
            }
            let batch = match disposition.forward {
                None => {
                    mbuf.set_mark(disposition.mark);
                    mbuf.set_rss_hash(disposition.hash);
                    sorted.queues.get_mut(usize::from(disposition.queue))
                }
                Some(to) => match self.ends.to_ports.iter().position(|(port, _)| *port == to) {
                    Some(at) => sorted.ports.get_mut(at),
                    // The rules name no port outside the switch, so it is this one.
                    None => Some(&mut sorted.sending),
                },
            };
            // A burst is no longer than a batch, and those are empty before.
            if let Some(batch) = batch {
                drop(batch.push(mbuf));
            }
        }
        self.transmit(&mut sorted.sending);
        self.pass_on(sorted);
        self.deliver(sorted);
        found
    }

    /// To the wires of the other ports.
    fn pass_on(&mut self, sorted: &mut Sorted) {
        for (batch, (_, ring)) in sorted.ports.iter_mut().zip(&mut self.ends.to_ports) {
            if batch.is_empty() {
                continue;
            }
            ring.enqueue_burst(batch);
            lose(batch, &self.counters, NicCounter::WireFull);
        }
    }

    fn deliver(&mut self, sorted: &mut Sorted) {
        for (batch, ring) in sorted.queues.iter_mut().zip(&mut self.ends.to_host) {
            if batch.is_empty() {
                continue;
            }
            ring.enqueue_burst(batch);
            lose(batch, &self.counters, NicCounter::QueueFull);
            if let Some(bell) = &self.bell {
                bell.ring();
            }
        }
    }

    /// From the host and from other ports to the wire.
    fn send(&mut self, sorted: &mut Sorted) -> usize {
        let mut moved = 0;
        let Ends { from_host, from_ports, sent, wire_tx, .. } = &mut self.ends;
        let host = from_host.iter_mut().zip((0_u16..).map(Some));
        for (ring, queue) in host.chain(from_ports.iter_mut().map(|ring| (ring, None))) {
            let found = ring.dequeue_burst(&mut sorted.sending);
            wire_tx.tx_burst(&mut sorted.sending);
            lose(&mut sorted.sending, &self.counters, NicCounter::WireFull);
            if let Some(queue) = queue {
                sent.polled(queue, found);
            }
            moved += found;
        }
        moved
    }

    fn transmit(&mut self, batch: &mut Batch<BURST>) {
        if !batch.is_empty() {
            self.ends.wire_tx.tx_burst(batch);
            lose(batch, &self.counters, NicCounter::WireFull);
        }
    }
}

/// Drops what was not taken, and counts it.
fn lose(batch: &mut Batch<BURST>, counters: &CounterSet<NicCounter>, counter: NicCounter) {
    let lost = batch.len();
    if lost > 0 {
        counters.add(counter, lost as u64);
        batch.clear();
    }
}

#[cfg(test)]
mod tests;
