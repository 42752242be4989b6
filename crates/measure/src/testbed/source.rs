//! The other core: traffic source and NIC in one.
use std::sync::atomic::Ordering;

use dpdk::{Batch, Consumer, Mbuf, Mempool, Producer, cycles};
use hdrhistogram::Histogram;
use packet::PacketBuf;

use crate::machine::core_time::{CoreTime, Interruption};
use crate::testbed::frames::{FrameSpec, Templates};
use crate::testbed::packet_counts::PacketCounts;
use crate::testbed::poll_loop::Signals;

/// Mbufs moved at once.
const BURST: usize = 64;
/// Packets by which the source may lag behind its rate (when its core was
/// taken away) before it gives them up: they count as not offered.
const MOST_BEHIND: u64 = 256;
/// Mbufs in use when source and load balancer take turns.
const ALTERNATE: usize = 256;
/// Milliseconds before the first packet whose latency counts.
const UNTIMED_MS: u64 = 20;

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
    pub(crate) packet_counts: PacketCounts,
    /// Cycles from first to last packet.
    pub(crate) cycles: u64,
    /// Cycles from a packet's writing to its return.
    pub(crate) latency: Option<Histogram<u64>>,
}

/// The source's ends of all rings.
pub(crate) struct SourceRings<'a> {
    pub(crate) to_host: &'a mut [Producer],
    pub(crate) from_host: &'a mut [Consumer; 2],
    pub(crate) pool: &'a Mempool,
    pub(crate) signals: &'a Signals,
    pub(crate) interruption: Interruption,
}

/// Done by the source's core between two bursts, for instance a keeper's work;
/// it is told the cycle.
pub(crate) type BetweenBursts<'a, 's> = &'a mut (dyn FnMut(u64) + Send + 's);

/// Everything the source owns.
pub(crate) struct Generator<'a, 's> {
    pub(crate) specs: &'a [FrameSpec],
    pub(crate) templates: &'a Templates,
    /// Bytes of the longest frame.
    pub(crate) longest: usize,
    pub(crate) rings: SourceRings<'a>,
    pub(crate) between_bursts: Option<BetweenBursts<'a, 's>>,
}

struct Run<'g, 'a, 's> {
    generator: &'g mut Generator<'a, 's>,
    at: usize,
    /// By ring.
    staged: Vec<Batch<BURST>>,
    sent: Sent,
    stamp: Option<u64>,
    /// The cycle from which on latencies count.
    timed: u64,
    interruption: Interruption,
    /// Whether lengths or marks of the packets differ.
    varied: bool,
    /// Whether the load balancer is excused while its core is another's.
    excuses: bool,
}

impl Generator<'_, '_> {
    /// Sends until the measured core is done.
    pub(crate) fn send(mut self, pace: Pace) -> Sent {
        let mut run = Run::new(&mut self);
        let start = cycles();
        match pace {
            Pace::Closed(window) => run.closed(window),
            Pace::Open { rate, stamped } => run.open(rate, stamped),
        }
        run.sent.cycles = cycles().wrapping_sub(start);
        run.flush();
        run.sent
    }

    /// Sends a burst, lets `poll` take it, and takes it back; again and again
    /// until `poll` has enough. All on one core: what the load balancer costs
    /// when packets are in its cache already.
    pub(crate) fn alternate(mut self, mut poll: impl FnMut() -> bool) -> Sent {
        let mut run = Run::new(&mut self);
        let mut free = Vec::with_capacity(ALTERNATE);
        loop {
            run.between_bursts();
            while free.len() < ALTERNATE {
                let Some(mbuf) = run.fresh() else { break };
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

impl<'g, 'a, 's> Run<'g, 'a, 's> {
    fn new(generator: &'g mut Generator<'a, 's>) -> Self {
        let staged = generator.rings.to_host.iter().map(|_| Batch::new()).collect();
        let sent = Sent { packet_counts: PacketCounts::default(), cycles: 0, latency: None };
        let interruption = generator.rings.interruption;
        let (all, first) = (generator.specs, generator.specs.first());
        let differs = |(one, other): (&FrameSpec, &FrameSpec)| {
            (one.len(), one.mark()) != (other.len(), other.mark())
        };
        let varied = all.iter().zip(first.into_iter().cycle()).any(differs);
        Self {
            generator,
            at: 0,
            staged,
            sent,
            stamp: None,
            timed: 0,
            interruption,
            varied,
            excuses: false,
        }
    }

    fn done(&self) -> bool {
        self.generator.rings.signals.measured.load(Ordering::Relaxed)
    }

    /// Another turn of the source's loop.
    #[inline]
    fn turn(&self) -> u64 {
        let now = cycles();
        self.generator.rings.signals.source.beat(now, self.interruption);
        now
    }

    /// Asks for what will be written of mbufs that came back: the load balancer's
    /// core has it.
    #[inline]
    fn prefetch(&self, batch: &Batch<BURST>) {
        batch.iter().for_each(Mbuf::prefetch_write);
        if self.varied {
            batch.iter().for_each(Mbuf::prefetch_write_header);
        }
    }

    #[inline]
    fn between_bursts(&mut self) {
        if let Some(between_bursts) = &mut self.generator.between_bursts {
            between_bursts(cycles());
        }
    }

    /// An mbuf from the pool whose payload is written already: headers are all
    /// that differs between frames.
    fn fresh(&self) -> Option<Mbuf> {
        blank(self.generator.rings.pool, self.generator.longest)
    }

    /// Every packet that comes back is sent again as another.
    fn closed(&mut self, window: usize) {
        let first: Vec<Mbuf> = (0..window).map_while(|_| self.fresh()).collect();
        for mbuf in first {
            self.emit(mbuf);
        }
        self.flush();
        let mut batches = [Batch::<BURST>::new(), Batch::new()];
        while !self.done() {
            self.turn();
            let mut found = 0;
            for at in 0..2 {
                let [coming, there] = &mut batches;
                let Some(ring) = self.generator.rings.from_host.get_mut(at) else { continue };
                let some = ring.dequeue_burst(coming);
                self.count_returned(at, some);
                // The load balancer has written all of them: while they come
                // from its cache, those that came before are sent.
                self.prefetch(coming);
                found += some + there.len();
                for mbuf in there.drain() {
                    self.emit(mbuf);
                }
                batches.swap(0, 1);
            }
            if found == 0 {
                self.flush();
            }
            self.between_bursts();
        }
    }

    /// Packets are due by the clock.
    fn open(&mut self, rate: f64, stamped: bool) {
        let per_second = dpdk::cycles_per_second().max(1);
        let per_cycle = rate / per_second as f64;
        let mut free: Vec<Mbuf> = Vec::with_capacity(1 << 14);
        while free.len() < free.capacity() / 2 {
            let Some(mbuf) = self.fresh() else { break };
            free.push(mbuf);
        }
        if stamped {
            self.sent.latency = Histogram::new_with_bounds(1, 1 << 40, 3).ok();
        }
        let start = cycles();
        self.timed = start + per_second / 1000 * UNTIMED_MS;
        self.excuses = true;
        let (mut taken, mut skipped) = (0_u64, 0_u64);
        while !self.done() {
            let now = self.turn();
            self.recover(&mut free);
            self.stamp = stamped.then_some(now);
            let due = (now.wrapping_sub(start) as f64 * per_cycle) as u64;
            let behind = due.saturating_sub(taken + skipped);
            if behind == 0 {
                self.between_bursts();
                std::hint::spin_loop();
                continue;
            }
            skipped += behind.saturating_sub(MOST_BEHIND);
            for _ in 0..behind.min(BURST as u64) {
                taken += 1;
                match free.pop() {
                    Some(mbuf) => self.emit(mbuf),
                    None => {
                        let port = self.generator.specs.get(self.at).map_or(0, FrameSpec::port);
                        self.sent.packet_counts.offered[port] += 1;
                        self.lose(port, 1);
                    }
                }
            }
            self.flush();
        }
    }

    fn count_returned(&mut self, port: usize, packets: usize) {
        if let Some(returned) = self.sent.packet_counts.returned.get_mut(port) {
            *returned += packets as u64;
        }
    }

    /// Takes back what the load balancer has sent.
    fn recover(&mut self, free: &mut Vec<Mbuf>) {
        let mut back = Batch::<BURST>::new();
        for at in 0..2 {
            while let Some(ring) = self.generator.rings.from_host.get_mut(at) {
                let found = ring.dequeue_burst(&mut back);
                if found == 0 {
                    break;
                }
                self.count_returned(at, found);
                let now = cycles();
                self.prefetch(&back);
                for mbuf in back.drain() {
                    if let Some(times) = &mut self.sent.latency {
                        let Signals { host, source, .. } = self.generator.rings.signals;
                        let then = stamp_of(&mbuf);
                        let excused =
                            |thread: &CoreTime| thread.touched(then, now, self.interruption);
                        // What came before the load balancer was warm doesn't count.
                        if then >= self.timed && !excused(host) && !excused(source) {
                            times.saturating_record(now.saturating_sub(then));
                        }
                    }
                    if free.len() < free.capacity() {
                        free.push(mbuf);
                    }
                }
            }
        }
    }

    /// Writes the next packet into `mbuf` and stages it for its ring.
    #[inline]
    fn emit(&mut self, mut mbuf: Mbuf) {
        let Generator { specs, templates, rings, .. } = &mut *self.generator;
        let Some(spec) = specs.get(self.at) else { return };
        self.at += 1;
        if self.at == specs.len() {
            self.at = 0;
        }
        if !write(templates, spec, &mut mbuf) {
            return;
        }
        if let (Some(stamp), Some(field)) = (self.stamp, mbuf.bytes_mut().get_mut(STAMP)) {
            field.copy_from_slice(&stamp.to_be_bytes());
        }
        let packet_counts = &mut self.sent.packet_counts;
        packet_counts.offered[spec.port()] += 1;
        let Some(batch) = self.staged.get_mut(spec.ring()) else { return };
        // There is room: a full batch is flushed at once.
        drop(batch.push(mbuf));
        if batch.is_full() {
            if let Some(ring) = rings.to_host.get_mut(spec.ring()) {
                ring.enqueue_burst(batch);
            }
            let (port, lost) = (spec.port(), batch.len());
            batch.clear();
            self.lose(port, lost);
        }
    }

    /// Packets that the load balancer did not take. While another process has
    /// its core they are as if they had never been offered.
    #[inline]
    fn lose(&mut self, port: usize, packets: usize) {
        if packets > 0 {
            let host = &self.generator.rings.signals.host;
            let excused = self.excuses && host.excused(cycles(), self.interruption);
            self.sent.packet_counts.lose(port, packets as u64, excused);
        }
    }

    /// Puts what is staged into the rings; what is not taken is lost.
    fn flush(&mut self) {
        // The first half of the rings is the clients' port.
        let half = self.staged.len() / 2;
        let mut lost = [0; 2];
        let rings = self.staged.iter_mut().zip(self.generator.rings.to_host.iter_mut());
        for (at, (batch, ring)) in rings.enumerate() {
            if !batch.is_empty() {
                ring.enqueue_burst(batch);
                lost[usize::from(at >= half)] += batch.len();
                batch.clear();
            }
        }
        self.lose(0, lost[0]);
        self.lose(1, lost[1]);
    }
}

/// Makes `mbuf` the packet of `spec`; `false`: it has no room. Length and mark
/// that are right already aren't written: the mbuf's own cache line then stays
/// in the caches of both cores.
#[inline]
fn write(templates: &Templates, spec: &FrameSpec, mbuf: &mut Mbuf) -> bool {
    if mbuf.len() != spec.len() && !mbuf.resize(spec.len()) {
        return false;
    }
    if mbuf.mark() != spec.mark() {
        mbuf.set_mark(spec.mark());
    }
    templates.write(spec, mbuf.bytes_mut())
}

/// A frame of zeros.
pub(crate) fn blank(pool: &Mempool, len: usize) -> Option<Mbuf> {
    let mut mbuf = pool.alloc()?;
    if !mbuf.resize(len) {
        return None;
    }
    mbuf.bytes_mut().fill(0);
    Some(mbuf)
}

/// Where a packet carries its time: TCP's sequence and acknowledgement number,
/// which nothing on the way looks at.
const STAMP: std::ops::Range<usize> = 38..46;

fn stamp_of(mbuf: &Mbuf) -> u64 {
    let field = mbuf.bytes().get(STAMP).and_then(|field| field.try_into().ok());
    field.map_or(0, u64::from_be_bytes)
}

#[cfg(test)]
mod tests {
    use dpdk::{Eal, EalConfig, HugePages};
    use wire::Transport;

    use super::*;
    use crate::testbed::frames::{DATA, Family};

    #[test]
    fn a_used_mbuf_becomes_the_next_packet() {
        let huge_pages = HugePages::Never;
        let config = EalConfig { memory_mb: 64, huge_pages, ..EalConfig::default() };
        let _eal = Eal::init(&config).unwrap();
        let pool = Mempool::new("source", 64, 0, 2048).unwrap();
        let templates = Templates::new(Family::V4, Transport::Tcp);
        let mut mbuf = blank(&pool, 1514).unwrap();
        for (size, mark) in
            [(64, None), (64, Some(1)), (64, Some(2)), (128, Some(2)), (128, Some(0)), (64, None)]
        {
            let spec = templates.forward(1, size, DATA).steered(0, mark);
            assert!(write(&templates, &spec, &mut mbuf));
            assert_eq!((mbuf.len(), mbuf.mark()), (spec.len(), mark));
            assert_eq!(
                mbuf.bytes()[..64.min(spec.len())],
                templates.frame(&spec)[..64.min(spec.len())]
            );
        }
    }
}
