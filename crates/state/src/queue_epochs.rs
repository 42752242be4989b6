//! Lets the offload side know that packets which a rule had classified before
//! it was destroyed have left the receive queues.
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// A moment to wait for; see [`QueueEpochs::passed`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Ticket(u64);

/// The receive queues of one port and how far each has been emptied.
///
/// A mark or queue number may get another meaning only when no packet with the
/// old one can come any more: destroy the rule, take a [`ticket`](Self::ticket),
/// wait until it has [`passed`](Self::passed).
#[derive(Debug)]
pub struct QueueEpochs {
    epoch: AtomicU64,
    queues: Box<[QueueEpoch]>,
    ring: u32,
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

impl QueueEpochs {
    /// For a port with `queues` receive queues of `ring` descriptors each.
    #[must_use]
    pub fn new(queues: usize, ring: u32) -> Self {
        let queues = (0..queues).map(|_| QueueEpoch::default()).collect();
        Self { epoch: AtomicU64::new(0), queues, ring }
    }

    /// The present moment; taken by the offload side after a rule is gone.
    pub fn ticket(&self) -> Ticket {
        Ticket(self.epoch.fetch_add(1, Ordering::AcqRel) + 1)
    }

    /// Told by the worker after every poll of `queue` once the polled packets
    /// have been processed: `got` packets of at most `burst`. Costs two loads
    /// unless a ticket is open.
    #[inline]
    pub fn polled(&self, queue: u16, got: usize, burst: usize) {
        let Some(slot) = self.queues.get(usize::from(queue)) else { return };
        let epoch = self.epoch.load(Ordering::Acquire);
        if slot.seen.load(Ordering::Relaxed) != epoch {
            slot.advance(epoch, got, burst, self.ring);
        }
    }

    /// Whether every packet that was in a queue when `ticket` was taken has
    /// been processed.
    #[must_use]
    pub fn passed(&self, ticket: Ticket) -> bool {
        self.queues.iter().all(|queue| queue.seen.load(Ordering::Acquire) >= ticket.0)
    }
}

impl QueueEpoch {
    /// A poll counts only if it began after the epoch was seen: the packets of
    /// this call may have been polled before the ticket was taken.
    #[cold]
    fn advance(&self, epoch: u64, got: usize, burst: usize, ring: u32) {
        let pending = self.pending.load(Ordering::Relaxed);
        if pending == self.seen.load(Ordering::Relaxed) {
            self.pending.store(epoch, Ordering::Relaxed);
            self.taken.store(0, Ordering::Relaxed);
            return;
        }
        let got32 = u32::try_from(got).unwrap_or(u32::MAX);
        let taken = self.taken.load(Ordering::Relaxed).saturating_add(got32);
        if got < burst || taken >= ring {
            self.seen.store(pending, Ordering::Release);
        } else {
            self.taken.store(taken, Ordering::Relaxed);
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
        epochs.polled(0, 0, 32);
        epochs.polled(1, 0, 32);
        assert!(!epochs.passed(ticket), "these polls may have begun before the ticket");
        epochs.polled(0, 0, 32);
        assert!(!epochs.passed(ticket), "queue 1 has not been polled again");
        epochs.polled(1, 31, 32);
        assert!(epochs.passed(ticket));
    }

    #[test]
    fn full_polls_count_up_to_the_ring() {
        let epochs = QueueEpochs::new(1, 64);
        let ticket = epochs.ticket();
        epochs.polled(0, 32, 32);
        epochs.polled(0, 32, 32);
        assert!(!epochs.passed(ticket));
        epochs.polled(0, 32, 32);
        assert!(epochs.passed(ticket));
    }

    #[test]
    fn a_steady_stream_of_tickets_does_not_starve() {
        let epochs = QueueEpochs::new(1, 64);
        let first = epochs.ticket();
        for _ in 0..2 {
            epochs.polled(0, 0, 32);
            epochs.ticket();
        }
        assert!(epochs.passed(first));
    }
}
