//! The meaning of each receive queue of a port, and of each mark in a shared one.
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::SocketAddr;
use std::ops::Range;

use flow::{BackendId, Direction, HopId, ServiceId};
use state::QueueAction;
use wire::Transport;

use crate::stats::QueueUse;

/// The tags of one port, with what each means at present and how many rules
/// need it to: queues that rules may name and, once none of those is free, marks
/// of packets in queues that mean nothing by themselves. A tag keeps its meaning
/// as long as one rule, or one packet that such a rule has classified, may refer
/// to it.
#[derive(Debug)]
pub(super) struct Queues {
    slots: BTreeMap<u16, Slot>,
    by_action: HashMap<Key, u16>,
    free: BTreeSet<u16>,
    first_mark: u16,
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

/// What an action can be told by; what it does follows from that.
type Key = (ServiceId, BackendId, Direction, Transport, SocketAddr, HopId);

const fn key(action: &QueueAction) -> Key {
    let QueueAction { service, backend, direction, proto, endpoint, hop, .. } = *action;
    (service, backend, direction, proto, endpoint, hop)
}

/// A tag that was taken for a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Taken {
    /// The tag: a queue's number, or a mark.
    pub(super) tag: u16,
    /// The queue that the rule names.
    pub(super) queue: u16,
    /// Whether the rule carries the tag as its mark, since others share the queue.
    pub(super) marked: bool,
    /// It had no meaning before: the table of meanings must be written first.
    pub(super) is_new: bool,
}

impl Queues {
    /// The given `queues`, none of them a default queue, polled by `workers`
    /// workers: queue q by worker q mod `workers`. Packets with `marks` come to
    /// the `shared` queues by turns; if there are none, no mark is used.
    #[must_use]
    pub(super) fn new(queues: &[u16], shared: &[u16], marks: Range<u16>, workers: u16) -> Self {
        let slot = |queue: u16| Slot { queue, worker: queue % workers.max(1), used: None };
        let own = queues.iter().map(|&queue| (queue, slot(queue)));
        let first_mark = marks.start;
        let marked = marks.zip(shared.iter().cycle()).map(|(mark, &queue)| (mark, slot(queue)));
        let slots: BTreeMap<_, _> = own.chain(marked).collect();
        let free = slots.keys().copied().collect();
        Self { slots, by_action: HashMap::new(), free, first_mark }
    }

    /// One more rule for `action`: the tag that already means it, else a free
    /// queue of the `wanted` worker, or of the one that has the fewest, else a free
    /// mark; `None`: none is free.
    pub(super) fn take(&mut self, action: &QueueAction, wanted: Option<u16>) -> Option<Taken> {
        let known = self.by_action.get(&key(action)).copied();
        let tag = known.or_else(|| self.freest(wanted))?;
        let slot = self.slots.get_mut(&tag)?;
        let used = slot.used.get_or_insert(Used { action: *action, references: 0 });
        used.references += 1;
        self.by_action.insert(key(action), tag);
        self.free.remove(&tag);
        let marked = tag >= self.first_mark;
        Some(Taken { tag, queue: slot.queue, marked, is_new: known.is_none() })
    }

    /// One rule and its packets are gone. `true` if `tag` has lost its
    /// meaning by that: the table of meanings must be written.
    pub(super) fn release(&mut self, tag: u16) -> bool {
        let Some(slot) = self.slots.get_mut(&tag) else { return false };
        let Some(used) = &mut slot.used else { return false };
        used.references -= 1;
        if used.references > 0 {
            return false;
        }
        self.by_action.remove(&key(&used.action));
        slot.used = None;
        self.free.insert(tag);
        true
    }

    /// Queues and marks that have a meaning.
    #[must_use]
    pub(super) fn assigned(&self) -> usize {
        self.by_action.len()
    }

    /// Queues that a rule may name.
    #[must_use]
    pub(super) fn size(&self) -> usize {
        self.slots.range(..self.first_mark).count()
    }

    /// The tags that have a meaning.
    pub(super) fn uses(&self) -> impl Iterator<Item = QueueUse> {
        self.slots.iter().filter_map(|(&tag, slot)| {
            let Used { action, references } = slot.used.as_ref()?;
            Some(QueueUse {
                queue: slot.queue,
                mark: (tag >= self.first_mark).then_some(tag),
                service: action.service,
                backend: action.backend,
                direction: action.direction,
                rules: *references,
            })
        })
    }

    /// The first free queue of the `wanted` worker, else of the worker with the fewest
    /// assigned ones, else a free mark of the wanted worker, else the first free mark.
    fn freest(&self, wanted: Option<u16>) -> Option<u16> {
        let is_wanted =
            |tag: &u16| wanted.is_some() && self.slots.get(tag).map(|slot| slot.worker) == wanted;
        let load = |worker: u16| {
            let own = self.slots.range(..self.first_mark);
            own.filter(|(_, slot)| slot.worker == worker && slot.used.is_some()).count()
        };
        let queues = || self.free.range(..self.first_mark);
        let marks = || self.free.range(self.first_mark..);
        queues()
            .find(|tag| is_wanted(tag))
            .or_else(|| queues().min_by_key(|&tag| Some(load(self.slots.get(tag)?.worker))))
            .or_else(|| marks().find(|tag| is_wanted(tag)))
            .or_else(|| marks().next())
            .copied()
    }
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use flow::{BackendId, Direction, HopId, ServiceId};
    use service::Delivery;
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

    fn own(queue: u16, is_new: bool) -> Taken {
        Taken { tag: queue, queue, marked: false, is_new }
    }

    #[test]
    fn backends_beyond_the_queues_get_marks_in_shared_queues() {
        let mut queues = Queues::new(&[2, 3], &[0, 1], 4..7, 2);
        let taken: Vec<_> = (0..6)
            .map(|backend| queues.take(&action(backend, Direction::Forward, 0), None))
            .collect();
        let marked = |tag, queue| Some(Taken { tag, queue, marked: true, is_new: true });
        let expected = [
            Some(own(2, true)),
            Some(own(3, true)),
            marked(4, 0),
            marked(5, 1),
            marked(6, 0),
            None,
        ];
        assert_eq!(taken, expected);
        assert_eq!((queues.assigned(), queues.size()), (5, 2));
        let again = queues.take(&action(3, Direction::Forward, 0), None);
        assert_eq!(again, Some(Taken { tag: 5, queue: 1, marked: true, is_new: false }));
        assert!(!queues.release(5) && queues.release(5));
        assert_eq!(queues.take(&action(5, Direction::Forward, 0), None), marked(5, 1));
        assert!(queues.release(2), "a queue that becomes free is preferred");
        assert_eq!(queues.take(&action(7, Direction::Reply, 0), None), Some(own(2, true)));
    }

    #[test]
    fn a_queue_is_shared_by_rules_of_one_action_and_lost_with_the_last() {
        let mut queues = Queues::new(&[1, 2], &[], 16..16, 1);
        let (a, b) = (action(1, Direction::Forward, 0), action(1, Direction::Reply, 0));
        assert_eq!(queues.take(&a, None), Some(own(1, true)));
        assert_eq!(queues.take(&a, None), Some(own(1, false)));
        assert_eq!(queues.take(&b, None), Some(own(2, true)));
        assert_eq!(queues.take(&action(1, Direction::Forward, 9), None), None, "another next hop");
        assert!(!queues.release(1));
        assert_eq!(queues.assigned(), 2);
        assert!(queues.release(1));
        assert!(!queues.release(1) && !queues.release(7), "nothing to release");
        let other = action(2, Direction::Forward, 0);
        assert_eq!(queues.take(&other, None), Some(own(1, true)));
    }

    #[test]
    fn actions_are_spread_over_the_workers() {
        let mut queues = Queues::new(&[2, 3, 4, 5, 6, 7], &[], 16..16, 2);
        let taken: Vec<u16> = (0..6)
            .filter_map(|backend| queues.take(&action(backend, Direction::Forward, 0), None))
            .map(|taken| taken.queue)
            .collect();
        assert_eq!(taken, [2, 3, 4, 5, 6, 7], "workers 0 and 1 by turns");
        let mut uneven = Queues::new(&[2, 4, 6, 3], &[], 16..16, 2);
        uneven.take(&action(1, Direction::Forward, 0), None);
        let second = uneven.take(&action(2, Direction::Forward, 0), None);
        assert_eq!(second.map(|taken| taken.queue), Some(3), "worker 1 has none yet");
    }
}
