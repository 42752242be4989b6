//! The queue table: a queue number names a backend, as in the HNLB paper
//! (section III, step 7). Where there are more backends than queues, several
//! share a queue that means nothing by itself, and the rule's mark names the
//! backend: the second stage that the paper's section VIII asks for.
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arc_swap::ArcSwapOption;
use flow::{BackendId, Direction, HopId, ServiceId};
use service::Delivery;
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

/// Actions that marks may name beside those of queues: more would not fit the
/// 16 bits of Flow Director's soft ids together with the queues.
pub const SHARED_ACTIONS: usize = 4096;

/// The meaning of every receive queue of one port, and of the marks of packets
/// in shared queues. Both are tags: queues have the numbers from 0, marks those
/// behind the last queue.
#[derive(Debug)]
pub struct QueueTable {
    actions: Box<[ArcSwapOption<QueueAction>]>,
    queues: usize,
    changes: AtomicU64,
}

impl QueueTable {
    /// A table of `queues` queues and `shared` marks that all mean "look it up
    /// in software".
    #[must_use]
    pub fn new(queues: usize, shared: usize) -> Self {
        let actions = (0..queues + shared).map(|_| ArcSwapOption::empty()).collect();
        Self { actions, queues, changes: AtomicU64::new(0) }
    }

    /// Number of queues.
    #[must_use]
    pub fn size(&self) -> usize {
        self.queues
    }

    /// The tags that marks can be.
    #[must_use]
    pub fn shared(&self) -> std::ops::Range<u16> {
        let tag = |place: usize| u16::try_from(place).unwrap_or(u16::MAX);
        tag(self.queues)..tag(self.actions.len())
    }

    /// How often a meaning has changed. Who sees a count sees all changes that
    /// it counts.
    #[inline]
    #[must_use]
    pub fn changes(&self) -> u64 {
        self.changes.load(Ordering::Acquire)
    }

    /// The tag that `mark` is; `None`: it is none, for instance the 0 that an
    /// ixgbe port reports for every match of a rule without MARK.
    #[inline]
    #[must_use]
    pub fn tag(&self, mark: u32) -> Option<u16> {
        let place = mark as usize;
        (place >= self.queues && place < self.actions.len()).then_some(mark as u16)
    }

    /// What is done to packets with `tag`; `None`: look them up in software.
    #[inline]
    #[must_use]
    pub fn get(&self, tag: u16) -> Option<QueueAction> {
        self.actions.get(usize::from(tag))?.load().as_deref().copied()
    }

    /// Whether a tag means `backend`.
    #[must_use]
    pub fn means(&self, backend: BackendId) -> bool {
        let means = |action: &ArcSwapOption<QueueAction>| {
            action.load().as_ref().is_some_and(|action| action.backend == backend)
        };
        self.actions.iter().any(means)
    }

    /// Gives `tag` a meaning, before the first rule names it. `false` if
    /// there is no such tag.
    pub fn set(&self, tag: u16, action: Option<QueueAction>) -> bool {
        let Some(slot) = self.actions.get(usize::from(tag)) else { return false };
        slot.store(action.map(Arc::new));
        self.changes.fetch_add(1, Ordering::Release);
        true
    }
}
