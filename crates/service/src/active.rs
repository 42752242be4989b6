//! How many connections each backend has at present.
use std::sync::atomic::{AtomicU32, Ordering};

use flow::BackendId;

/// Open connections per backend, shared by all workers: 256 KiB, one count for
/// every id there can be, so that configurations may come and go. Workers read
/// them to compare backends, and no order between them is kept.
#[derive(Debug)]
pub struct ActiveCounts(Box<[AtomicU32]>);

impl Default for ActiveCounts {
    fn default() -> Self {
        Self((0..=u16::MAX).map(|_| AtomicU32::new(0)).collect())
    }
}

impl ActiveCounts {
    /// Connections of `backend`.
    #[must_use]
    pub fn get(&self, backend: BackendId) -> u32 {
        self.0.get(usize::from(backend.0)).map_or(0, |count| count.load(Ordering::Relaxed))
    }

    /// One more connection for `backend`.
    pub fn opened(&self, backend: BackendId) {
        self.change(backend, |count| count.checked_add(1));
    }

    /// One connection less for `backend`; never below zero.
    pub fn closed(&self, backend: BackendId) {
        self.change(backend, |count| count.checked_sub(1));
    }

    fn change(&self, backend: BackendId, by: impl Fn(u32) -> Option<u32>) {
        if let Some(count) = self.0.get(usize::from(backend.0)) {
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
