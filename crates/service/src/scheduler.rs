//! Which scheduler a service has, and what it remembers between choices.

/// How backends are chosen for new connections. Backends of weight 0 are
/// never chosen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Scheduler {
    /// Each in turn; weights don't matter.
    RoundRobin,
    /// Each in turn, as often as its weight says, evenly spread.
    WeightedRoundRobin,
    /// The one with the fewest connections for its weight.
    LeastConnections,
    /// Consistent hashing over the 5-tuple.
    #[default]
    Maglev,
    /// Consistent hashing over the client's address.
    SourceHash,
}

/// What one worker's schedulers remember; of fixed size, made by
/// [`ServiceTable::worker_state`](crate::ServiceTable::worker_state) and good
/// only for that table.
#[derive(Clone, Debug)]
pub struct WorkerScheduleState {
    /// The next place in the ring, by service.
    pub(crate) cursors: Box<[u32]>,
    /// Smooth weighted round robin's credits, by backend.
    pub(crate) credits: Box<[i64]>,
}
