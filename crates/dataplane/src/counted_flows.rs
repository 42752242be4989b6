//! A driver's rules, with a count of the calls from which the driver has returned:
//! as long as it moves, the driver gets on.
use std::sync::atomic::{AtomicU64, Ordering};

use dpdk::flow::{FlowCall, FlowLayer, FlowPort};

/// [`FlowPort`] that counts in `calls`.
pub(crate) struct CountedFlows<'a> {
    flows: &'a mut dyn FlowPort,
    calls: &'a AtomicU64,
}

impl<'a> CountedFlows<'a> {
    pub(crate) const fn new(flows: &'a mut dyn FlowPort, calls: &'a AtomicU64) -> Self {
        Self { flows, calls }
    }
}

impl FlowLayer for CountedFlows<'_> {
    fn inner(&mut self) -> &mut dyn FlowPort {
        self.flows
    }

    fn after(&mut self, _: FlowCall) {
        self.calls.fetch_add(1, Ordering::Relaxed);
    }
}
