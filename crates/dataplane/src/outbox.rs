//! What a worker's pipeline gives out: packets to send, requests to the
//! keeper and the offload thread, each through a ring of its own.
use std::sync::Arc;

use conntrack::ConnId;
use dpdk::{Batch, Mbuf, Mempool, TxQueue};
use flow::{HopId, InterfaceId, PortId, ServiceId};
use packet::PacketBuf;
use pipeline::Outbox;
use splice::Record;
use state::{Counter, Counters, Offload, Source};

use crate::access_log::ForLog;
use crate::exception_thread::ForKernel;
use crate::handover::HandedOver;
use crate::terminator_thread::ForTerminator;

/// Packets sent at once.
pub(crate) const BURST: usize = 32;
/// How often a full send queue is tried again before packets are dropped.
const TX_RETRIES: usize = 8;

/// What workers and the keeper tell the offload thread of a connection.
pub(crate) type OffloadRequest = (ConnId, Offload);

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
    pub(crate) kernel: rtrb::Producer<ForKernel>,
    pub(crate) terminator: rtrb::Producer<ForTerminator>,
    pub(crate) log: Option<ForLog>,
    /// The ways to the other workers, by their numbers.
    pub(crate) workers: Vec<Option<rtrb::Producer<HandedOver>>>,
    pub(crate) pool: Mempool,
    /// The same as the pipeline's.
    pub(crate) counters: Arc<Counters>,
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
    fn flush(&mut self, counters: &Counters) {
        let wanted = self.batch.len();
        for _ in 0..TX_RETRIES {
            self.queue.tx_burst(&mut self.batch);
            if self.batch.is_empty() {
                break;
            }
            std::hint::spin_loop();
        }
        let lost = self.batch.len();
        counters.add(Counter::TxSent, (wanted - lost) as u64);
        if lost > 0 {
            counters.add(Counter::TxFull, lost as u64);
            self.batch.clear();
        }
    }
}

impl Outbox<Mbuf> for MbufOutbox {
    #[inline]
    fn send(&mut self, port: PortId, packet: Mbuf) {
        let Some(port) = self.ports.get_mut(usize::from(port.0)) else {
            self.counters.count(Counter::TxNoPort);
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
            self.counters.count(Counter::RequestsLost);
        }
    }

    fn hand_over(&mut self, worker: usize, from: Source, packet: Mbuf) -> bool {
        let ring = self.workers.get_mut(worker).and_then(Option::as_mut);
        ring.is_some_and(|ring| ring.push((from, packet)).is_ok())
    }

    fn to_kernel(&mut self, interface: InterfaceId, packet: Mbuf) -> bool {
        self.kernel.push((interface, packet)).is_ok()
    }

    fn to_terminator(&mut self, service: Option<ServiceId>, packet: Mbuf) -> bool {
        self.terminator.push((service, packet)).is_ok()
    }

    fn log(&mut self, record: &Record) -> bool {
        self.log.as_mut().is_some_and(|ring| ring.push(*record).is_ok())
    }
}
