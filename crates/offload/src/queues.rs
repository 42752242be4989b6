//! Which receive queue of a port means what.
use pipeline::encoding::QueueAction;

use crate::stats::QueueUse;

/// The queues of one port that a rule may name, with what each means at
/// present and how many rules need it to. A queue keeps its meaning as long as
/// one rule, or one packet that such a rule has classified, may refer to it.
#[derive(Debug)]
pub(crate) struct Queues {
    slots: Vec<Slot>,
}

#[derive(Debug)]
struct Slot {
    queue: u16,
    worker: u16,
    used: Option<Used>,
}

#[derive(Debug)]
struct Used {
    action: QueueAction,
    references: usize,
}

/// A queue that was taken for a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Taken {
    /// The queue.
    pub(crate) queue: u16,
    /// It had no meaning before: the queue table must be written first.
    pub(crate) is_new: bool,
}

impl Queues {
    /// The given `queues`, none of them a default queue, polled by `workers`
    /// workers: queue q by worker q mod `workers`.
    #[must_use]
    pub(crate) fn new(queues: &[u16], workers: u16) -> Self {
        let slot = |&queue: &u16| Slot { queue, worker: queue % workers.max(1), used: None };
        Self { slots: queues.iter().map(slot).collect() }
    }

    /// One more rule for `action`: the queue that already means it, else a
    /// free one of the worker that has the fewest; `None`: no queue is free.
    pub(crate) fn take(&mut self, action: &QueueAction) -> Option<Taken> {
        let same = |slot: &Slot| slot.used.as_ref().is_some_and(|used| used.action == *action);
        let at = match self.slots.iter().position(same) {
            Some(at) => at,
            None => self.freest()?,
        };
        let slot = self.slots.get_mut(at)?;
        let is_new = slot.used.is_none();
        let used = slot.used.get_or_insert(Used { action: *action, references: 0 });
        used.references += 1;
        Some(Taken { queue: slot.queue, is_new })
    }

    /// One rule and its packets are gone. `true` if `queue` has lost its
    /// meaning by that: the queue table must be written.
    pub(crate) fn release(&mut self, queue: u16) -> bool {
        let Some(slot) = self.slots.iter_mut().find(|slot| slot.queue == queue) else {
            return false;
        };
        let Some(used) = &mut slot.used else { return false };
        used.references -= 1;
        let last = used.references == 0;
        if last {
            slot.used = None;
        }
        last
    }

    /// Queues that have a meaning.
    #[must_use]
    pub(crate) fn assigned(&self) -> usize {
        self.slots.iter().filter(|slot| slot.used.is_some()).count()
    }

    /// Queues that a rule may name.
    #[must_use]
    pub(crate) fn size(&self) -> usize {
        self.slots.len()
    }

    /// The queues that have a meaning.
    pub(crate) fn uses(&self) -> impl Iterator<Item = QueueUse> {
        self.slots.iter().filter_map(|slot| {
            let Used { action, references } = slot.used.as_ref()?;
            Some(QueueUse {
                queue: slot.queue,
                service: action.service,
                backend: action.backend,
                direction: action.direction,
                rules: *references,
            })
        })
    }

    /// The first free queue of the worker with the fewest assigned ones.
    fn freest(&self) -> Option<usize> {
        let load = |worker: u16| {
            let busy = |slot: &&Slot| slot.worker == worker && slot.used.is_some();
            self.slots.iter().filter(busy).count()
        };
        let free = self.slots.iter().enumerate().filter(|(_, slot)| slot.used.is_none());
        free.min_by_key(|(_, slot)| load(slot.worker)).map(|(at, _)| at)
    }
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use service::{BackendId, Delivery, Direction, HopId, ServiceId};
    use wire::{Rewrite, Transport};

    use super::*;

    fn action(backend: u16, direction: Direction, hop: u32) -> QueueAction {
        let vip: SocketAddr = "203.0.113.1:80".parse().unwrap();
        let server = SocketAddr::from(([192, 168, 0, backend as u8], 80));
        QueueAction {
            service: ServiceId(0),
            backend: BackendId(backend),
            direction,
            proto: Transport::Tcp,
            endpoint: vip,
            delivery: Delivery::Rewrite(Rewrite::destination(vip, server).unwrap()),
            hop: HopId(hop),
        }
    }

    #[test]
    fn a_queue_is_shared_by_rules_of_one_action_and_lost_with_the_last() {
        let mut queues = Queues::new(&[1, 2], 1);
        let (a, b) = (action(1, Direction::Forward, 0), action(1, Direction::Reply, 0));
        assert_eq!(queues.take(&a), Some(Taken { queue: 1, is_new: true }));
        assert_eq!(queues.take(&a), Some(Taken { queue: 1, is_new: false }));
        assert_eq!(queues.take(&b), Some(Taken { queue: 2, is_new: true }));
        assert_eq!(queues.take(&action(1, Direction::Forward, 9)), None, "another next hop");
        assert!(!queues.release(1));
        assert_eq!(queues.assigned(), 2);
        assert!(queues.release(1));
        assert!(!queues.release(1) && !queues.release(7), "nothing to release");
        let other = action(2, Direction::Forward, 0);
        assert_eq!(queues.take(&other), Some(Taken { queue: 1, is_new: true }));
    }

    #[test]
    fn actions_are_spread_over_the_workers() {
        let mut queues = Queues::new(&[2, 3, 4, 5, 6, 7], 2);
        let taken: Vec<u16> = (0..6)
            .filter_map(|backend| queues.take(&action(backend, Direction::Forward, 0)))
            .map(|taken| taken.queue)
            .collect();
        assert_eq!(taken, [2, 3, 4, 5, 6, 7], "workers 0 and 1 by turns");
        let mut uneven = Queues::new(&[2, 4, 6, 3], 2);
        uneven.take(&action(1, Direction::Forward, 0));
        let second = uneven.take(&action(2, Direction::Forward, 0));
        assert_eq!(second.map(|taken| taken.queue), Some(3), "worker 1 has none yet");
    }
}
