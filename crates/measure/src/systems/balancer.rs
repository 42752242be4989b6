//! What is measured: something that takes bursts and sends them on.
use std::sync::Arc;

use dpdk::{Batch, Mbuf};
use pipeline::Pipeline;
use state::{Shared, Source};

use crate::error::MeasureError;
use crate::testbed::outbox::Out;
use crate::testbed::scenario::Scenario;

/// Packets received at once: the paper's B for one queue.
pub(crate) const RX_BURST: usize = 32;

/// A load balancer on the measured core.
pub(crate) trait Balancer: Send {
    /// The top of a round over all queues.
    #[inline]
    fn begin(&mut self) {}

    /// Takes what came in to where it goes.
    fn process(&mut self, from: Source, burst: &mut Batch, now_ms: u64, out: &mut Out<'_>);

    /// A poll has given `found` packets, and they have been processed.
    #[inline]
    fn polled(&mut self, _from: Source, _found: usize) {}
}

/// HNLB's own data path, whatever the encoding.
pub(crate) struct Hnlb {
    shared: Arc<Shared>,
    pipeline: Pipeline<Mbuf>,
}

impl Hnlb {
    /// Worker number `worker` of those that share the state of `scenario`.
    pub(crate) fn new(scenario: &Scenario, worker: usize) -> Result<Self, MeasureError> {
        let shared = Arc::clone(&scenario.shared);
        let pipeline = Pipeline::new(Arc::clone(&shared), worker, scenario.settings())?;
        Ok(Self { shared, pipeline })
    }
}

impl Balancer for Hnlb {
    #[inline]
    fn begin(&mut self) {
        self.pipeline.begin();
    }

    #[inline]
    fn process(&mut self, from: Source, burst: &mut Batch, now_ms: u64, out: &mut Out<'_>) {
        self.pipeline.process(from, burst.packets(), now_ms, out);
    }

    #[inline]
    fn polled(&mut self, from: Source, found: usize) {
        if let Some(port) = self.shared.port(from.port) {
            port.queue_epochs.polled(from.queue, found);
        }
    }
}
