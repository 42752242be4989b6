//! Connections of which it is not known yet where they go.
use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use arc_swap::ArcSwapOption;
use wire::FlowKey;

/// Connections that the kernel goes on forwarding for a load balancer that was killed, and
/// whose backend is not known until it has answered. A packet of one that reaches a worker
/// meanwhile must not go to a backend by hash: another backend would reset the connection.
#[derive(Debug, Default)]
pub struct Awaited {
    any: AtomicBool,
    flows: ArcSwapOption<HashSet<FlowKey>>,
}

impl Awaited {
    /// These are awaited, in the place of those before; none without any.
    pub fn set(&self, flows: impl IntoIterator<Item = FlowKey>) {
        let flows: HashSet<FlowKey> = flows.into_iter().collect();
        let any = !flows.is_empty();
        self.flows.store(any.then(|| Arc::new(flows)));
        self.any.store(any, Ordering::Release);
    }

    /// Whether there are any: one load.
    #[inline]
    #[must_use]
    pub fn any(&self) -> bool {
        self.any.load(Ordering::Acquire)
    }

    /// Whether the connection that a client's packet with `key` belongs to is one.
    #[must_use]
    pub fn has(&self, key: &FlowKey) -> bool {
        self.any() && self.flows.load().as_ref().is_some_and(|flows| flows.contains(key))
    }
}
