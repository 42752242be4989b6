//! One processor: a queue, and a loop that polls up to 32 packets, works on them, and
//! sends them all.
use std::collections::VecDeque;

use crate::laslb::service::POLL_NS;

/// Packets that the queue between NIC and function has room for.
const QUEUE: usize = 1024;
/// Packets of a poll.
const POLL: usize = 32;

/// A packet on its way through a processor.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Packet {
    pub(crate) at_ns: u64,
    /// Its place among the arrivals.
    pub(crate) number: u32,
    pub(crate) flow: Option<u32>,
    /// Whether it goes from server to client.
    pub(crate) back: bool,
    pub(crate) service_ns: u32,
    pub(crate) size: u16,
    pub(crate) bucket: u16,
    pub(crate) sequence: u64,
}

/// The processor.
#[derive(Debug, Default)]
pub(crate) struct NetworkFunction {
    waiting: VecDeque<Packet>,
    batch: Vec<Packet>,
    done_ns: Option<u64>,
    busy_ns: u64,
}

impl NetworkFunction {
    /// Takes a packet; `false`: the queue is full.
    pub(crate) fn offer(&mut self, packet: Packet, now_ns: u64) -> bool {
        if self.waiting.len() >= QUEUE {
            return false;
        }
        self.waiting.push_back(packet);
        if self.done_ns.is_none() {
            self.poll(now_ns);
        }
        true
    }

    /// When the packets at work are sent.
    pub(crate) const fn done_ns(&self) -> Option<u64> {
        self.done_ns
    }

    /// Sends what is done, into `sent`, and polls again.
    pub(crate) fn finish(&mut self, now_ns: u64, sent: &mut Vec<Packet>) {
        sent.append(&mut self.batch);
        self.poll(now_ns);
    }

    /// Nanoseconds of work begun so far.
    pub(crate) const fn busy_ns(&self) -> u64 {
        self.busy_ns
    }

    fn poll(&mut self, now_ns: u64) {
        let count = self.waiting.len().min(POLL);
        self.batch.extend(self.waiting.drain(..count));
        if count == 0 {
            self.done_ns = None;
            return;
        }
        let work: u64 = self.batch.iter().map(|packet| u64::from(packet.service_ns)).sum();
        self.busy_ns += work + POLL_NS;
        self.done_ns = Some(now_ns + work + POLL_NS);
    }
}
