//! Which receive queue of a port means what.
use pipeline::encoding::QueueAction;

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
        let used = slot.used.get_or_insert_with(|| Used { action: *action, references: 0 });
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

    /// What each assigned queue means, with the number of rules that need it.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u16, &QueueAction, usize)> {
        self.slots.iter().filter_map(|slot| {
            slot.used.as_ref().map(|used| (slot.queue, &used.action, used.references))
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
