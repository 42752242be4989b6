//! What a worker's pipeline gives out: packets to send, requests to the
//! keeper and the offload thread, each through a ring of its own.
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use conntrack::ConnId;
use dpdk::{Batch, Mbuf, Mempool, TxQueue};
use flow::{HopId, PortId};
use packet::PacketBuf;
use pipeline::Outbox;
use state::Offload;

/// Packets sent at once.
pub(crate) const BURST: usize = 32;
/// How often a full send queue is tried again before packets are dropped.
const TX_RETRIES: usize = 8;

/// What workers and the keeper tell the offload thread of a connection.
pub(crate) type OffloadRequest = (ConnId, Offload);

/// What a worker could not send.
#[derive(Debug, Default)]
pub(crate) struct SendCounters {
    /// Packets sent.
    pub(crate) sent: AtomicU64,
    /// Packets that a full send queue had no room for.
    pub(crate) tx_full: AtomicU64,
    /// Packets for a port that does not exist.
    pub(crate) no_port: AtomicU64,
    /// Requests for next hops that the keeper's ring had no room for.
    pub(crate) requests_lost: AtomicU64,
}

impl SendCounters {
    /// Name and counter of each.
    pub(crate) fn named(&self) -> [(&'static str, &AtomicU64); 4] {
        [
            ("tx_sent", &self.sent),
            ("tx_full", &self.tx_full),
            ("tx_no_port", &self.no_port),
            ("requests_lost", &self.requests_lost),
        ]
    }
}

/// One port as a worker sends on it.
pub(crate) struct TxPort {
    pub(crate) queue: TxQueue,
    pub(crate) batch: Batch<BURST>,
}

/// The way out of one worker.
pub(crate) struct MbufOutbox {
    pub(crate) ports: Vec<TxPort>,
    pub(crate) offload: rtrb::Producer<OffloadRequest>,
    pub(crate) resolve: rtrb::Producer<HopId>,
    pub(crate) pool: Mempool,
    pub(crate) counters: Arc<SendCounters>,
}

impl MbufOutbox {
    /// Sends what has been collected.
    #[inline]
    pub(crate) fn flush(&mut self) {
        for port in &mut self.ports {
            if !port.batch.is_empty() {
                port.flush(&self.counters);
            }
        }
    }
}

impl TxPort {
    fn flush(&mut self, counters: &SendCounters) {
        let wanted = self.batch.len();
        for _ in 0..TX_RETRIES {
            self.queue.tx_burst(&mut self.batch);
            if self.batch.is_empty() {
                break;
            }
            std::hint::spin_loop();
        }
        let lost = self.batch.len();
        add(&counters.sent, wanted - lost);
        if lost > 0 {
            add(&counters.tx_full, lost);
            self.batch.clear();
        }
    }
}

/// One worker writes, so load and store need not be one operation.
fn add(counter: &AtomicU64, n: usize) {
    counter.store(counter.load(Ordering::Relaxed).wrapping_add(n as u64), Ordering::Relaxed);
}

impl Outbox<Mbuf> for MbufOutbox {
    #[inline]
    fn send(&mut self, port: PortId, packet: Mbuf) {
        let Some(port) = self.ports.get_mut(usize::from(port.0)) else {
            add(&self.counters.no_port, 1);
            return;
        };
        if port.batch.is_full() {
            port.flush(&self.counters);
        }
        // There is room now: the batch has just been emptied if it was full.
        drop(port.batch.push(packet));
    }

    fn fresh(&mut self, len: usize) -> Option<Mbuf> {
        let mut mbuf = self.pool.alloc()?;
        mbuf.resize(len).then_some(mbuf)
    }

    fn offload(&mut self, conn: ConnId, reason: Offload) -> bool {
        self.offload.push((conn, reason)).is_ok()
    }

    fn resolve(&mut self, hop: HopId) {
        // The keeper finds it in the neighbour table, too, only later.
        if self.resolve.push(hop).is_err() {
            add(&self.counters.requests_lost, 1);
        }
    }
}
