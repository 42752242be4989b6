//! The way out of the measured core.
use conntrack::ConnId;
use dpdk::{Batch, Mbuf, Mempool, TxQueue};
use flow::{HopId, InterfaceId, PortId};
use packet::PacketBuf;
use pipeline::Outbox;
use state::{Offload, Source};

/// Packets sent at once.
const BURST: usize = 32;

/// The send queues, by port.
pub(crate) struct Out<'a> {
    pub(crate) ports: [TxPort<'a>; 2],
    pub(crate) pool: &'a Mempool,
    /// The ring of requests to the offload side, where a measurement has one.
    pub(crate) requests: Option<Requests>,
    /// Requests for which there is no ring.
    pub(crate) unheard: u64,
}

/// The way to the offload side.
pub(crate) type Requests = rtrb::Producer<(ConnId, Offload)>;

/// One send queue and what is collected for it.
pub(crate) struct TxPort<'a> {
    queue: &'a mut TxQueue,
    batch: Batch<BURST>,
}

impl<'a> TxPort<'a> {
    pub(crate) fn new(queue: &'a mut TxQueue) -> Self {
        Self { queue, batch: Batch::new() }
    }

    #[inline]
    fn flush(&mut self) {
        self.queue.tx_burst(&mut self.batch);
        // The send ring has room for all mbufs there are, so nothing is left.
        self.batch.clear();
    }
}

impl Out<'_> {
    /// Sends what has been collected.
    #[inline]
    pub(crate) fn flush(&mut self) {
        for port in &mut self.ports {
            if !port.batch.is_empty() {
                port.flush();
            }
        }
    }
}

impl Outbox<Mbuf> for Out<'_> {
    #[inline]
    fn send(&mut self, port: PortId, packet: Mbuf) {
        let Some(port) = self.ports.get_mut(usize::from(port.0)) else { return };
        if port.batch.is_full() {
            port.flush();
        }
        // There is room now: the batch has just been emptied if it was full.
        drop(port.batch.push(packet));
    }

    fn fresh(&mut self, len: usize) -> Option<Mbuf> {
        let mut mbuf = self.pool.alloc()?;
        mbuf.resize(len).then_some(mbuf)
    }

    fn offload(&mut self, conn: ConnId, reason: Offload) -> bool {
        match &mut self.requests {
            Some(ring) => ring.push((conn, reason)).is_ok(),
            None => {
                self.unheard += 1;
                true
            }
        }
    }

    fn resolve(&mut self, _: HopId) {
        self.unheard += 1;
    }

    fn hand_over(&mut self, _: usize, _: Source, _: Mbuf) -> bool {
        false
    }

    fn to_kernel(&mut self, _: InterfaceId, _: Mbuf) -> bool {
        false
    }
}
