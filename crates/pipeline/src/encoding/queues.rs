//! The queue table: a queue number names a backend, as in the HNLB paper
//! (section III, step 7).
use std::net::SocketAddr;
use std::sync::Arc;

use arc_swap::ArcSwapOption;
use service::{BackendId, Delivery, Direction, HopId, ServiceId};
use wire::Transport;

/// What is done to every packet of a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueAction {
    /// The service whose packets arrive here.
    pub service: ServiceId,
    /// The backend they go to or come from.
    pub backend: BackendId,
    /// Their direction.
    pub direction: Direction,
    /// The protocol of all of them.
    pub proto: Transport,
    /// The endpoint that all of them carry when they arrive: the VIP as their
    /// destination in direction `Forward`, the backend as their source in
    /// direction `Reply`. Port 0 stands for any port. A packet without it came
    /// to the queue wrongly and goes the software way.
    pub endpoint: SocketAddr,
    /// What is done to them, which needs nothing that differs between connections.
    pub delivery: Delivery,
    /// Where they are sent.
    pub hop: HopId,
}

/// The meaning of every receive queue of one port.
#[derive(Debug)]
pub struct QueueTable {
    actions: Box<[ArcSwapOption<QueueAction>]>,
}

impl QueueTable {
    /// A table of `queues` queues that all mean "look it up in software".
    #[must_use]
    pub fn new(queues: usize) -> Self {
        Self { actions: (0..queues).map(|_| ArcSwapOption::empty()).collect() }
    }

    /// Number of queues.
    #[must_use]
    pub fn size(&self) -> usize {
        self.actions.len()
    }

    /// What is done to packets of `queue`; `None`: look them up in software.
    #[inline]
    #[must_use]
    pub fn get(&self, queue: u16) -> Option<QueueAction> {
        self.actions.get(usize::from(queue))?.load().as_deref().copied()
    }

    /// Gives `queue` a meaning, before the first rule names it. `false` if
    /// there is no such queue.
    pub fn set(&self, queue: u16, action: Option<QueueAction>) -> bool {
        let Some(slot) = self.actions.get(usize::from(queue)) else { return false };
        slot.store(action.map(Arc::new));
        true
    }
}
