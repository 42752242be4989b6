//! How backends are chosen for new connections.
use crate::word::words;

words! {
    /// How the backend of a new connection is chosen. Backends of weight 0 are
    /// never chosen.
    #[derive(Default)]
    Scheduler: "scheduler" {
        /// Each backend in turn; weights are ignored.
        RoundRobin => "round-robin",
        /// Each backend in turn, as often as its weight says, evenly spread.
        WeightedRoundRobin => "weighted-round-robin",
        /// The backend with the fewest connections for its weight.
        LeastConnections => "least-connections",
        /// Consistent hashing over addresses and ports: few connections move when backends change.
        #[default]
        Maglev => "maglev",
        /// Consistent hashing over the client's address: all connections of a client go to one backend.
        SourceHash => "source-hash",
    }
}
