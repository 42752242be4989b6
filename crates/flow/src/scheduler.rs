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
        /// Of two backends picked at random by weight, the one that has answered new connections sooner: from SYN to SYN-ACK, or to the first answer in UDP. Only with the modes `nat` and `fullnat`.
        LeastLatency => "least-latency",
    }
}

impl Scheduler {
    /// Whether the choice for a connection depends on which connections were
    /// opened before it, so that packets must be scheduled in the order in which
    /// they came. It does for every scheduler but Maglev, also for one that
    /// remembers nothing itself: while the connection table is full, Maglev takes
    /// their places.
    #[must_use]
    pub const fn depends_on_order(self) -> bool {
        match self {
            Self::RoundRobin
            | Self::WeightedRoundRobin
            | Self::LeastConnections
            | Self::SourceHash
            | Self::LeastLatency => true,
            Self::Maglev => false,
        }
    }

    /// Whether it measures how soon backends answer, for which their answers
    /// must come through the load balancer.
    #[must_use]
    pub const fn measures_answers(self) -> bool {
        matches!(self, Self::LeastLatency)
    }
}
