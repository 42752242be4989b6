//! How backends are chosen for new connections.
use crate::Mode;
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
        /// Consistent hashing of addresses and ports: few connections move when backends change.
        #[default]
        Maglev => "maglev",
        /// Consistent hashing of the client's address: all connections of a client go to one backend.
        SourceHash => "source-hash",
        /// Of two backends picked at random by weight, the one that has answered new connections faster: from SYN to SYN-ACK, or to the first answer in UDP. Only with the modes `nat` and `fullnat`.
        LeastLatency => "least-latency",
    }
}

impl Scheduler {
    /// Whether the choice for a connection depends on what happened before: then
    /// packets must be scheduled in the order in which they came, and a connection
    /// that is in no table (it is full, or HNLB was started anew) may go elsewhere,
    /// since hashing alone chooses for it.
    #[must_use]
    pub const fn remembers(self) -> bool {
        match self {
            Self::RoundRobin
            | Self::WeightedRoundRobin
            | Self::LeastConnections
            | Self::LeastLatency => true,
            Self::Maglev | Self::SourceHash => false,
        }
    }

    /// Whether a backend's weight is its share of new connections; otherwise all
    /// that have a weight are equal.
    #[must_use]
    pub const fn weighs(self) -> bool {
        !matches!(self, Self::RoundRobin)
    }

    /// Why the scheduler can't be used in `mode`, and what can be used; `None` if
    /// it can.
    #[must_use]
    pub fn refusal(self, mode: Mode) -> Option<String> {
        (self.measures_answers() && mode.is_one_way()).then(|| {
            format!(
                "{self} measures how soon backends answer, and in mode {mode} their answers do not come through the load balancer; take another scheduler, or the mode nat or fullnat"
            )
        })
    }

    /// Whether it measures how soon backends answer, for which their answers
    /// must come through the load balancer.
    #[must_use]
    pub const fn measures_answers(self) -> bool {
        matches!(self, Self::LeastLatency)
    }
}
