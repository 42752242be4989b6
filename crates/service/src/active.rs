//! How many connections each backend has at present, and how soon it answers.
use std::sync::atomic::{AtomicU32, Ordering};

use flow::BackendId;

use crate::latency::Latencies;

/// Open connections per backend, shared by all workers: 256 KiB, one count for
/// every id there can be, so that configurations may come and go. Workers read
/// them to compare backends, and no order between them is kept. Beside them is
/// how soon each backend answers.
#[derive(Debug)]
pub struct ActiveCounts {
    counts: Box<[AtomicU32]>,
    latencies: Latencies,
}

impl Default for ActiveCounts {
    fn default() -> Self {
        let counts = (0..=u16::MAX).map(|_| AtomicU32::new(0)).collect();
        Self { counts, latencies: Latencies::default() }
    }
}

impl ActiveCounts {
    /// Connections of `backend`.
    #[must_use]
    pub fn get(&self, backend: BackendId) -> u32 {
        self.counts.get(usize::from(backend.0)).map_or(0, |count| count.load(Ordering::Relaxed))
    }

    /// One more connection for `backend`.
    pub fn opened(&self, backend: BackendId) {
        self.change(backend, |count| count.checked_add(1));
    }

    /// One connection less for `backend`; never below zero.
    pub fn closed(&self, backend: BackendId) {
        self.change(backend, |count| count.checked_sub(1));
    }

    /// Connection number `conn` with `backend`, of a service whose scheduler
    /// measures answers, began at `now_ms`.
    pub fn asked(&self, conn: u32, backend: BackendId, now_ms: u64) {
        self.latencies.asked(conn, backend, now_ms);
    }

    /// Connection number `conn` got its first answer at `now_ms`. Connections
    /// that are not measured may be reported, too.
    pub fn answered(&self, conn: u32, now_ms: u64) {
        self.latencies.answered(conn, now_ms);
    }

    /// How soon `backend` answers, in 1/256 ms; 0: not known.
    #[must_use]
    pub fn latency(&self, backend: BackendId) -> u32 {
        self.latencies.get(backend)
    }

    fn change(&self, backend: BackendId, by: impl Fn(u32) -> Option<u32>) {
        if let Some(count) = self.counts.get(usize::from(backend.0)) {
            // An error means that the count is at its bound, where it stays.
            let _ = count.fetch_update(Ordering::Relaxed, Ordering::Relaxed, by);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_stay_within_bounds() {
        let (counts, one) = (ActiveCounts::default(), BackendId(u16::MAX));
        counts.closed(one);
        assert_eq!(counts.get(one), 0);
        counts.opened(one);
        counts.opened(one);
        counts.closed(one);
        assert_eq!((counts.get(BackendId(0)), counts.get(one)), (0, 1));
    }
}
