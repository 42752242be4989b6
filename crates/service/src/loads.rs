//! What each backend carries: how many connections it has, and how soon it answers.
mod latency;

use std::sync::atomic::{AtomicU32, Ordering};

use flow::BackendId;

use self::latency::Latencies;

/// The load of every backend, shared by all workers: its open connections, and
/// how soon it answers new ones. 896 KiB: a place for every id there can be, so
/// that configurations may come and go (256 KiB of counts and 512 KiB of times),
/// and 128 KiB for answers that are waited for. Workers read the loads to compare
/// backends, and no order between them is kept.
#[derive(Debug)]
pub struct BackendLoads {
    connections: Box<[AtomicU32]>,
    latencies: Latencies,
}

impl Default for BackendLoads {
    fn default() -> Self {
        let connections = (0..=u16::MAX).map(|_| AtomicU32::new(0)).collect();
        Self { connections, latencies: Latencies::default() }
    }
}

impl BackendLoads {
    /// The same loads, which no worker changes; answers that are waited for are left
    /// out.
    #[must_use]
    pub fn copied(&self) -> Self {
        Self { connections: copied(&self.connections), latencies: self.latencies.copied() }
    }

    /// Open connections of `backend`.
    #[must_use]
    pub fn connections(&self, backend: BackendId) -> u32 {
        let count = self.connections.get(usize::from(backend.0));
        count.map_or(0, |count| count.load(Ordering::Relaxed))
    }

    /// One more connection for `backend`.
    pub fn opened(&self, backend: BackendId) {
        self.change(backend, |count| count.checked_add(1));
    }

    /// One connection less for `backend`; never below zero.
    pub fn closed(&self, backend: BackendId) {
        self.change(backend, |count| count.checked_sub(1));
    }

    /// The connection with this id and generation, whose answers pass the load balancer,
    /// began with `backend` at `now_ms`.
    pub fn asked(&self, conn: (u32, u32), backend: BackendId, now_ms: u64) {
        self.latencies.asked(conn, backend, now_ms);
    }

    /// A connection of a service whose scheduler measures answers began with `backend` at
    /// `now_ms`: for as long as none of them is answered the backend counts as slow.
    pub fn waits(&self, backend: BackendId, now_ms: u64) {
        self.latencies.waits(backend, now_ms);
    }

    /// The connection with this id and generation got its first answer at
    /// `now_ms`. Connections that are not measured may be reported, too. The backend, and
    /// after how many milliseconds it has answered, if the connection was measured.
    pub fn answered(&self, conn: (u32, u32), now_ms: u64) -> Option<(BackendId, u16)> {
        self.latencies.answered(conn, now_ms)
    }

    /// The backend of the connection with this id and generation refused it: nothing is
    /// measured. The backend, if the connection was to be measured.
    pub fn refused(&self, conn: (u32, u32)) -> Option<BackendId> {
        self.latencies.refused(conn)
    }

    /// How soon `backend` answers, in 1/256 ms; 0: not known.
    #[must_use]
    pub fn latency(&self, backend: BackendId) -> u32 {
        self.latencies.get(backend)
    }

    fn change(&self, backend: BackendId, by: impl Fn(u32) -> Option<u32>) {
        if let Some(count) = self.connections.get(usize::from(backend.0)) {
            // An error means that the count is at its bound, where it stays.
            let _ = count.fetch_update(Ordering::Relaxed, Ordering::Relaxed, by);
        }
    }
}

/// The numbers as they are now.
fn copied(numbers: &[AtomicU32]) -> Box<[AtomicU32]> {
    numbers.iter().map(|number| AtomicU32::new(number.load(Ordering::Relaxed))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_stay_within_bounds() {
        let (counts, one) = (BackendLoads::default(), BackendId(u16::MAX));
        counts.closed(one);
        assert_eq!(counts.connections(one), 0);
        counts.opened(one);
        counts.opened(one);
        counts.closed(one);
        assert_eq!((counts.connections(BackendId(0)), counts.connections(one)), (0, 1));
    }
}
