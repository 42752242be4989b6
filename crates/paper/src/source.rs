//! The other core: traffic source and NIC in one.
use std::sync::atomic::Ordering;

use dpdk::{Batch, Consumer, Mbuf, Mempool, Producer, cycles};
use hdrhistogram::Histogram;
use packet::PacketBuf;

use crate::flows::Shot;
use crate::host::Signals;

/// Mbufs moved at once.
const BURST: usize = 32;
/// Packets by which the source may lag behind its rate (when its core was
/// taken away) before it gives them up: they count as not offered.
const MOST_BEHIND: u64 = 256;

/// Mbufs in use when source and load balancer take turns.
const ALTERNATE: usize = 256;

/// How packets are sent.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Pace {
    /// As many packets as are on their way at most; one that came back is the
    /// next to be sent. Never loses one.
    Closed(usize),
    /// So many packets a second, whatever happens to them.
    Open {
        /// Packets per second.
        rate: f64,
        /// Whether every packet carries its time.
        stamped: bool,
    },
}

/// What the source knows of its packets.
#[derive(Debug)]
pub(crate) struct Sent {
    /// Packets put into rings or lost.
    pub(crate) offered: u64,
    /// Those whose ring was full.
    pub(crate) lost: u64,
    /// Those that came back.
    pub(crate) returned: u64,
    /// Cycles from first to last packet.
    pub(crate) cycles: u64,
    /// Cycles from a packet's writing to its return.
    pub(crate) latency: Option<Histogram<u64>>,
}

/// Everything the source owns.
pub(crate) struct Generator<'a> {
    pub(crate) shots: &'a [Shot],
    /// The frame that all packets are copies of.
    pub(crate) frame: &'a [u8],
    pub(crate) to_host: &'a mut [Producer],
    pub(crate) from_host: &'a mut [Consumer],
    pub(crate) pool: &'a Mempool,
    pub(crate) signals: &'a Signals,
}

struct Run<'g, 'a> {
    generator: &'g mut Generator<'a>,
    at: usize,
    staged: Vec<Batch<BURST>>,
    sent: Sent,
    stamped: bool,
}

impl Generator<'_> {
    /// Sends until the measured core is done.
    pub(crate) fn send(mut self, pace: Pace) -> Sent {
        let stamped = matches!(pace, Pace::Open { stamped: true, .. });
        let queues = self.to_host.len();
        let latency = if stamped { Histogram::new_with_bounds(1, 1 << 40, 3).ok() } else { None };
        let mut run = Run {
            generator: &mut self,
            at: 0,
            staged: (0..queues).map(|_| Batch::new()).collect(),
            sent: Sent { offered: 0, lost: 0, returned: 0, cycles: 0, latency },
            stamped,
        };
        let start = cycles();
        match pace {
            Pace::Closed(window) => run.closed(window),
            Pace::Open { rate, .. } => run.open(rate),
        }
        run.sent.cycles = cycles().wrapping_sub(start);
        run.flush();
        run.sent
    }

    /// Sends a burst, lets `poll` take it, and takes it back; again and again
    /// until `poll` has enough. All on one core: what the load balancer costs
    /// when packets are in its cache already.
    pub(crate) fn alternate(mut self, mut poll: impl FnMut() -> bool) -> Sent {
        let queues = self.to_host.len();
        let mut run = Run {
            generator: &mut self,
            at: 0,
            staged: (0..queues).map(|_| Batch::new()).collect(),
            sent: Sent { offered: 0, lost: 0, returned: 0, cycles: 0, latency: None },
            stamped: false,
        };
        let mut free = Vec::with_capacity(ALTERNATE);
        loop {
            while free.len() < ALTERNATE {
                let Some(mbuf) = run.generator.pool.alloc() else { break };
                free.push(mbuf);
            }
            for mbuf in free.drain(..) {
                run.emit(mbuf);
            }
            run.flush();
            if !poll() {
                return run.sent;
            }
            run.recover(&mut free);
        }
    }
}

impl Run<'_, '_> {
    fn done(&self) -> bool {
        self.generator.signals.measured.load(Ordering::Relaxed)
    }

    /// Every packet that comes back is sent again as another.
    fn closed(&mut self, window: usize) {
        for _ in 0..window {
            let Some(mbuf) = self.generator.pool.alloc() else { break };
            self.emit(mbuf);
        }
        self.flush();
        let mut back = Batch::<BURST>::new();
        while !self.done() {
            let mut found = 0;
            for at in 0..self.generator.from_host.len() {
                let Some(ring) = self.generator.from_host.get_mut(at) else { continue };
                found += ring.dequeue_burst(&mut back);
                for mbuf in back.drain() {
                    self.sent.returned += 1;
                    self.emit(mbuf);
                }
            }
            if found == 0 {
                self.flush();
            }
        }
    }

    /// Packets are due by the clock.
    fn open(&mut self, rate: f64) {
        let per_cycle = rate / dpdk::cycles_per_second().max(1) as f64;
        let mut free: Vec<Mbuf> = Vec::with_capacity(1 << 14);
        while free.len() < free.capacity() / 2 {
            let Some(mbuf) = self.generator.pool.alloc() else { break };
            free.push(mbuf);
        }
        let start = cycles();
        let (mut taken, mut skipped) = (0_u64, 0_u64);
        while !self.done() {
            self.recover(&mut free);
            let due = (cycles().wrapping_sub(start) as f64 * per_cycle) as u64;
            let behind = due.saturating_sub(taken + skipped);
            if behind == 0 {
                std::hint::spin_loop();
                continue;
            }
            skipped += behind.saturating_sub(MOST_BEHIND);
            for _ in 0..behind.min(BURST as u64) {
                taken += 1;
                match free.pop() {
                    Some(mbuf) => self.emit(mbuf),
                    None => {
                        self.sent.offered += 1;
                        self.sent.lost += 1;
                    }
                }
            }
            self.flush();
        }
    }

    /// Takes back what the load balancer has sent.
    fn recover(&mut self, free: &mut Vec<Mbuf>) {
        let mut back = Batch::<BURST>::new();
        for ring in self.generator.from_host.iter_mut() {
            while ring.dequeue_burst(&mut back) > 0 {
                let now = if self.stamped { cycles() } else { 0 };
                for mbuf in back.drain() {
                    self.sent.returned += 1;
                    if let (Some(times), Some(then)) = (&mut self.sent.latency, stamp_of(&mbuf)) {
                        times.saturating_record(now.wrapping_sub(then));
                    }
                    if free.len() < free.capacity() {
                        free.push(mbuf);
                    }
                }
            }
        }
    }

    /// Writes the next packet into `mbuf` and stages it for its queue.
    #[inline]
    fn emit(&mut self, mut mbuf: Mbuf) {
        let generator = &mut *self.generator;
        let Some(&shot) = generator.shots.get(self.at) else { return };
        self.at += 1;
        if self.at == generator.shots.len() {
            self.at = 0;
        }
        if !mbuf.resize(generator.frame.len()) {
            return;
        }
        let bytes = mbuf.bytes_mut();
        bytes.copy_from_slice(generator.frame);
        if let Some(headers) = bytes.first_chunk_mut() {
            shot.write(headers);
        }
        if self.stamped {
            stamp(bytes);
        }
        mbuf.set_mark(shot.mark());
        self.sent.offered += 1;
        let Some(batch) = self.staged.get_mut(shot.queue()) else { return };
        // There is room: a full batch is flushed at once.
        drop(batch.push(mbuf));
        if batch.is_full() {
            if let Some(ring) = generator.to_host.get_mut(shot.queue()) {
                ring.enqueue_burst(batch);
            }
            self.sent.lost += batch.len() as u64;
            batch.clear();
        }
    }

    /// Puts what is staged into the rings; what is not taken is lost.
    fn flush(&mut self) {
        for (batch, ring) in self.staged.iter_mut().zip(self.generator.to_host.iter_mut()) {
            if !batch.is_empty() {
                ring.enqueue_burst(batch);
                self.sent.lost += batch.len() as u64;
                batch.clear();
            }
        }
    }
}

/// Where a packet carries its time: TCP's sequence and acknowledgement number,
/// which nothing on the way looks at.
const STAMP: std::ops::Range<usize> = 38..46;

fn stamp(frame: &mut [u8]) {
    if let Some(field) = frame.get_mut(STAMP) {
        field.copy_from_slice(&cycles().to_be_bytes());
    }
}

fn stamp_of(mbuf: &Mbuf) -> Option<u64> {
    let field = mbuf.bytes().get(STAMP)?;
    Some(u64::from_be_bytes(field.try_into().ok()?))
}
