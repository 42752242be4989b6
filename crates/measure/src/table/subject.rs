//! What is measured: a table that does blocks of operations by the clock.

/// Operations between two looks at the cycle counter.
pub(super) const BLOCK: usize = 64;

/// What a block took.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Timed {
    /// Cycles, all operations together.
    pub(super) cycles: u64,
    /// Operations that did not do what they should: keys not found, or refused.
    pub(super) failed: u32,
}

/// A table under measurement. Connections are named by numbers (see
/// [`super::keys`]); turning them into keys is not in the time.
pub(super) trait Subject: Send + Sync {
    /// Looks up single keys.
    fn lookup(&self, numbers: &[u32]) -> Timed;
    /// Looks up all at once.
    fn lookup_bulk(&self, numbers: &[u32]) -> Timed;
    /// Inserts; `alone`: no other thread changes the table meanwhile.
    fn insert(&self, numbers: &[u32], alone: bool) -> Timed;
    /// Inserts as a burst; without an own way of that, as above.
    fn insert_bulk(&self, numbers: &[u32], alone: bool) -> Timed {
        self.insert(numbers, alone)
    }
    /// Removes; not by the clock.
    fn remove(&self, numbers: &[u32]);
    /// Makes the places of what was removed usable, while no thread looks anything up.
    fn settle(&self);
    /// Does what its keeper has done when nothing has come or gone for some
    /// seconds.
    fn rest(&self) {}
    /// Whether several threads may change it at a time.
    fn shares_changes(&self) -> bool;
}

/// Runs `work`, which gives back how many operations failed, by the clock.
#[inline]
pub(super) fn timed(work: impl FnOnce() -> u32) -> Timed {
    let start = dpdk::cycles();
    let failed = work();
    Timed { cycles: dpdk::cycles().saturating_sub(start), failed }
}
