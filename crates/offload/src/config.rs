//! How the offload side is set up.
use flow::Encoding;

use crate::RewriteCapabilities;

/// How one port's rules are made.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PortConfig {
    /// How rules tell workers what they matched; see [`probe`](crate::probe).
    pub encoding: Encoding,
    /// The receive queues that rules may name. In `queue` they must not be
    /// default (RSS) queues, and each worker should have one; in `mark` any
    /// queue will do, and one queue 0 is assumed if there is none.
    pub queues: Vec<u16>,
    /// With `queue`: the workers' own queues, in which rules may put packets
    /// whose mark names the backend once no queue of `queues` is free. Empty if
    /// the card takes no mark with a queue.
    pub shared_queues: Vec<u16>,
    /// Number of workers; queue q is polled by worker q mod `workers`.
    pub workers: u16,
    /// How the card rewrites; needed for `rewrite`.
    pub rewrite: Option<RewriteCapabilities>,
    /// With `rewrite`: connections that can't be rewritten get a mark, as in
    /// `mark`.
    pub mark_instead: bool,
}

/// The receive queues of a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReceiveQueues {
    /// How many there are.
    pub count: u16,
    /// The first so many are the workers' own: packets that match no rule
    /// arrive there.
    pub workers: u16,
    /// Whether several rules may have the same mark: the card takes marks with
    /// queues, and does not tell rules apart by them.
    pub marks_repeat: bool,
}

impl PortConfig {
    /// Rules of `encoding`, with the queues of `receive` that they may name.
    #[must_use]
    pub fn new(encoding: Encoding, receive: ReceiveQueues) -> Self {
        let ReceiveQueues { count, workers, marks_repeat } = receive;
        let own = || (0..workers).collect();
        let (queues, shared_queues) = match encoding {
            Encoding::Queue if marks_repeat => ((workers..count).collect(), own()),
            Encoding::Queue => ((workers..count).collect(), Vec::new()),
            Encoding::Mark | Encoding::Rewrite | Encoding::Off => (own(), Vec::new()),
        };
        Self { encoding, queues, shared_queues, workers, ..Self::default() }
    }
}

/// The offload side's settings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OffloadConfig {
    /// By `PortId`.
    pub ports: Vec<PortConfig>,
    /// Rules that a port may be asked to create in one tick, so that a slow
    /// card holds up nothing else for long (a creation takes 1 µs to 305 µs).
    pub creations_per_tick: usize,
    /// Rules that a port may be asked to destroy in one tick.
    pub destroys_per_tick: usize,
    /// Connections whose rules' counters are read in one tick by turns, and as
    /// many of those that look idle (`rewrite`).
    pub counted_per_tick: usize,
    /// Milliseconds between two such readings of one connection.
    pub count_ms: u64,
    /// Milliseconds after which a card certainly matches no destroyed rule any
    /// more, and what it had matched before is in a receive queue.
    pub settle_ms: u64,
    /// Milliseconds from the end of a connection (FIN both ways, RST) until its
    /// rules are destroyed.
    pub linger_ms: u64,
    /// Directions of connections that may wait for a rule of one port; more
    /// are served in software for good.
    pub waiting: usize,
    /// Which connections get rules, and how many a port may be asked for in a second.
    pub admission: admission::Settings,
}

impl Default for OffloadConfig {
    fn default() -> Self {
        Self {
            ports: Vec::new(),
            creations_per_tick: 64,
            destroys_per_tick: 128,
            counted_per_tick: 128,
            count_ms: 100,
            settle_ms: 10,
            linger_ms: 100,
            waiting: 1 << 16,
            admission: admission::Settings::default(),
        }
    }
}
