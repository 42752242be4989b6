//! Lets the offload side know that packets which a rule had classified before
//! it was destroyed have been processed: they have left the receive queues, and
//! the rings by which workers hand packets to each other.
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// Packets that a driver may have taken out of a receive ring and not handed out
/// yet: ixgbe stages 32, the vector receive functions at most as many.
const STAGED: u32 = 64;

/// A moment to wait for; see [`QueueEpochs::passed`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Ticket(u64);

/// The receive queues of one port and how far each has been emptied.
///
/// A mark or queue number may get another meaning only when no packet with the
/// old one can come any more: destroy the rule, take a [`ticket`](Self::ticket),
/// wait until it has [`passed`](Self::passed).
///
/// A queue has been emptied when a poll brought nothing and the queue held nothing
/// ([`polled_nothing`](Self::polled_nothing)), or when as many packets
/// have been polled as the ring and the driver's own stage hold. A poll that
/// brought fewer packets than were asked for says nothing: drivers round the
/// number down to multiples of 4 or 8, hand out what they have staged before they
/// look at the ring again (ixgbe), and stop where they find no mbuf.
///
/// A worker that hands packets to another through a ring makes that ring a part
/// of the epoch: the packets still carry their marks. A packet is handed over once
/// at most.
#[derive(Debug)]
pub struct QueueEpochs {
    epoch: AtomicU64,
    queues: Box<[QueueEpoch]>,
    rings: Box<[RingEpoch]>,
    capacity: u32,
}

/// Written by the one worker that polls the queue.
#[derive(Debug, Default)]
struct QueueEpoch {
    /// The epoch up to which the queue has been emptied.
    seen: AtomicU64,
    /// The epoch that the polls now count for.
    pending: AtomicU64,
    /// Packets polled since `pending` began.
    taken: AtomicU32,
}

/// A ring between two workers. Written by the worker at its end, but for `handed`.
#[derive(Debug, Default)]
struct RingEpoch {
    /// Packets put in, ever. Written by the worker at its beginning.
    handed: AtomicU64,
    /// Packets processed, ever.
    processed: AtomicU64,
    /// The epoch whose packets have all been processed.
    seen: AtomicU64,
    /// The epoch that is waited for.
    pending: AtomicU64,
    /// The number of `processed` at which `pending` is reached.
    goal: AtomicU64,
}

impl QueueEpochs {
    /// For a port with `queues` receive queues of `ring` descriptors each, as the
    /// driver has them.
    #[must_use]
    pub fn new(queues: usize, ring: u32) -> Self {
        let capacity = ring.saturating_add(STAGED);
        let queues = (0..queues).map(|_| QueueEpoch::default()).collect();
        Self { epoch: AtomicU64::new(0), queues, rings: Box::default(), capacity }
    }

    /// The same with `rings` rings by which workers hand each other packets of
    /// this port.
    #[must_use]
    pub fn with_rings(self, rings: usize) -> Self {
        Self { rings: (0..rings).map(|_| RingEpoch::default()).collect(), ..self }
    }

    /// The present moment; taken by the offload side after a rule is gone.
    pub fn ticket(&self) -> Ticket {
        Ticket(self.epoch.fetch_add(1, Ordering::AcqRel) + 1)
    }

    /// Told by the worker after every poll of `queue` once the polled packets
    /// have been processed, or handed over and [reported](Self::handed): `got`
    /// packets, as the driver gave them. Costs two loads unless a ticket is open.
    #[inline]
    pub fn polled(&self, queue: u16, got: usize) {
        let Some(slot) = self.queues.get(usize::from(queue)) else { return };
        let epoch = self.epoch.load(Ordering::Acquire);
        if slot.seen.load(Ordering::Relaxed) != epoch {
            slot.advance(epoch, got, self.capacity);
        }
    }

    /// As [`Self::polled`], for a poll that brought nothing: it counts only if
    /// `is_empty` says that the queue held nothing. The driver may have found no mbuf
    /// for a packet instead. Asks `is_empty` only while a ticket is open.
    #[inline]
    pub fn polled_nothing(&self, queue: u16, is_empty: impl FnOnce() -> bool) {
        let Some(slot) = self.queues.get(usize::from(queue)) else { return };
        let epoch = self.epoch.load(Ordering::Acquire);
        if slot.seen.load(Ordering::Relaxed) != epoch && is_empty() {
            slot.advance(epoch, 0, self.capacity);
        }
    }

    /// Told by the worker that has put `packets` of this port into the ring
    /// numbered `ring`, before it reports the poll that brought them.
    #[inline]
    pub fn handed(&self, ring: usize, packets: u64) {
        if let Some(ring) = self.rings.get(ring) {
            let before = ring.handed.load(Ordering::Relaxed);
            ring.handed.store(before + packets, Ordering::Release);
        }
    }

    /// Told by the worker at the end of the ring numbered `ring` after each look
    /// into it, once the `packets` of this port that it found have been processed;
    /// also if there were none. Costs two loads unless a ticket is open.
    #[inline]
    pub fn processed(&self, ring: usize, packets: u64) {
        let Some(ring) = self.rings.get(ring) else { return };
        let before = ring.processed.load(Ordering::Relaxed);
        ring.processed.store(before + packets, Ordering::Relaxed);
        if ring.seen.load(Ordering::Relaxed) != self.epoch.load(Ordering::Acquire) {
            ring.advance(&self.queues);
        }
    }

    /// Whether every packet that was in a queue when `ticket` was taken has
    /// been processed.
    #[must_use]
    pub fn passed(&self, ticket: Ticket) -> bool {
        let queues = self.queues.iter().map(|queue| &queue.seen);
        let rings = self.rings.iter().map(|ring| &ring.seen);
        queues.chain(rings).all(|seen| seen.load(Ordering::Acquire) >= ticket.0)
    }
}

impl QueueEpochs {
    /// Whether every packet that was in `queue` when `ticket` was taken has been
    /// processed, or handed over.
    #[must_use]
    pub fn emptied(&self, queue: u16, ticket: Ticket) -> bool {
        let queue = self.queues.get(usize::from(queue));
        queue.is_none_or(|queue| queue.seen.load(Ordering::Acquire) >= ticket.0)
    }
}

impl QueueEpoch {
    /// A poll counts only if it began after the epoch was seen: the packets of
    /// this call may have been polled before the ticket was taken.
    #[cold]
    fn advance(&self, epoch: u64, got: usize, capacity: u32) {
        let pending = self.pending.load(Ordering::Relaxed);
        if pending == self.seen.load(Ordering::Relaxed) {
            self.pending.store(epoch, Ordering::Relaxed);
            self.taken.store(0, Ordering::Relaxed);
            return;
        }
        let got32 = u32::try_from(got).unwrap_or(u32::MAX);
        let taken = self.taken.load(Ordering::Relaxed).saturating_add(got32);
        if got == 0 || taken >= capacity {
            self.seen.store(pending, Ordering::Release);
        } else {
            self.taken.store(taken, Ordering::Relaxed);
        }
    }
}

impl RingEpoch {
    /// When all queues have been emptied up to an epoch, all of its packets that
    /// were to be handed over are in the ring or behind it: those counted then
    /// must have been processed.
    #[cold]
    fn advance(&self, queues: &[QueueEpoch]) {
        let pending = self.pending.load(Ordering::Relaxed);
        if pending == self.seen.load(Ordering::Relaxed) {
            // Acquire: a queue's worker stores `handed` before `seen`.
            let emptied = queues.iter().map(|queue| queue.seen.load(Ordering::Acquire)).min();
            let Some(emptied) = emptied.filter(|emptied| *emptied > pending) else { return };
            self.goal.store(self.handed.load(Ordering::Acquire), Ordering::Relaxed);
            self.pending.store(emptied, Ordering::Relaxed);
        }
        if self.processed.load(Ordering::Relaxed) >= self.goal.load(Ordering::Relaxed) {
            self.seen.store(self.pending.load(Ordering::Relaxed), Ordering::Release);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ticket_passes_after_a_poll_that_began_later() {
        let epochs = QueueEpochs::new(2, 64);
        let ticket = epochs.ticket();
        assert!(!epochs.passed(ticket));
        epochs.polled(0, 0);
        epochs.polled(1, 0);
        assert!(!epochs.passed(ticket), "these polls may have begun before the ticket");
        epochs.polled(0, 0);
        assert!(!epochs.passed(ticket), "queue 1 has not been polled again");
        epochs.polled(1, 31);
        assert!(!epochs.passed(ticket), "a few packets don't say that these were all");
        epochs.polled(1, 0);
        assert!(epochs.passed(ticket));
    }

    #[test]
    fn polls_that_bring_packets_count_up_to_the_ring_and_the_stage() {
        let epochs = QueueEpochs::new(1, 64);
        let ticket = epochs.ticket();
        epochs.polled(0, 32);
        for _ in 0..(64 + STAGED) / 8 - 1 {
            epochs.polled(0, 8);
            assert!(!epochs.passed(ticket));
        }
        epochs.polled(0, 8);
        assert!(epochs.passed(ticket));
    }

    #[test]
    fn a_steady_stream_of_tickets_does_not_starve() {
        let epochs = QueueEpochs::new(1, 64).with_rings(1);
        let first = epochs.ticket();
        for _ in 0..3 {
            epochs.polled(0, 0);
            epochs.processed(0, 0);
            epochs.ticket();
        }
        assert!(epochs.passed(first));
    }

    #[test]
    fn a_ring_that_never_empties_does_not_starve() {
        let epochs = QueueEpochs::new(1, 64).with_rings(1);
        epochs.handed(0, 8);
        let ticket = epochs.ticket();
        epochs.polled(0, 0);
        epochs.polled(0, 0);
        epochs.processed(0, 4);
        assert!(!epochs.passed(ticket), "4 of 8 are left");
        epochs.handed(0, 8);
        epochs.processed(0, 4);
        assert!(epochs.passed(ticket), "the other 8 came later");
    }
}
