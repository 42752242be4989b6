//! What is measured: something that takes bursts and sends them on.
use std::sync::Arc;

use arrayvec::ArrayVec;
use dpdk::{Batch, Mbuf};
use pipeline::{BURST, Pipeline, PortId, Source};

use crate::error::PaperError;
use crate::outbox::Out;
use crate::world::World;

/// Packets received at once: the paper's B for one queue.
pub(crate) const RX_BURST: usize = 32;

/// A load balancer on the measured core.
pub(crate) trait Balancer: Send {
    /// The top of a round over all queues.
    #[inline]
    fn begin(&mut self) {}

    /// Takes what came on `queue` to where it goes.
    fn process(&mut self, queue: u16, burst: &mut Batch<RX_BURST>, now_ms: u64, out: &mut Out<'_>);
}

/// HNLB's own data path, whatever the encoding.
pub(crate) struct Hnlb {
    pipeline: Pipeline<Mbuf>,
    burst: ArrayVec<Mbuf, BURST>,
}

impl Hnlb {
    pub(crate) fn new(world: &World) -> Result<Self, PaperError> {
        let pipeline = Pipeline::new(Arc::clone(&world.shared), 0, world.settings())?;
        Ok(Self { pipeline, burst: ArrayVec::new() })
    }
}

impl Balancer for Hnlb {
    #[inline]
    fn begin(&mut self) {
        self.pipeline.begin();
    }

    #[inline]
    fn process(&mut self, queue: u16, burst: &mut Batch<RX_BURST>, now_ms: u64, out: &mut Out<'_>) {
        self.burst.extend(burst.drain());
        let from = Source { port: PortId(0), queue };
        self.pipeline.process(from, &mut self.burst, now_ms, out);
    }
}
