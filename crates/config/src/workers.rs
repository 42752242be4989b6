//! `[workers]`: the cores that move packets.
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The worker cores and how they poll.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Workers {
    /// The number of workers. Each has a core and receive queues of its own.
    #[schemars(range(min = 1, max = 64))]
    pub count: u16,
    /// The cores that workers are pinned to, at least `count`; empty: any free cores.
    #[schemars(inner(range(min = 0, max = 1023)))]
    pub cores: Vec<u16>,
    /// The core of all other threads; by default a free one.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 1023))]
    pub main_core: Option<u16>,
    /// The most packets that one poll takes from a queue, a multiple of 8: some drivers return multiples of 8 only.
    #[schemars(range(min = 8, max = 64))]
    pub burst: u16,
    /// The number of receive queues of each port without an emulated NIC, unless the encoding is `off`.
    #[schemars(range(min = 1, max = 256))]
    pub queues: u16,
    /// What a worker does when its queues are empty.
    pub idle: Idle,
    /// Whether packets that match no rule are spread over the workers by the load that they cause. Nothing is balanced with one worker.
    pub balance: Balance,
    /// What happens to packets in flight when the NIC moves a part of the traffic to another worker.
    pub move_order: MoveOrder,
}

impl Default for Workers {
    fn default() -> Self {
        Self {
            count: 1,
            cores: Vec::new(),
            main_core: None,
            burst: 32,
            queues: 16,
            idle: Idle::default(),
            balance: Balance::default(),
            move_order: MoveOrder::default(),
        }
    }
}

/// What a worker does when its queues are empty.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Idle {
    /// It keeps polling: the lowest latency, but the worker needs a core of its own.
    Spin,
    /// It yields its core to other threads after some empty polls, and sleeps when its queues stay empty: for 50 µs at a time, or, if it is the only worker and all ports have emulated NICs, until a packet arrives.
    Yield,
    /// `spin` if every thread has a core of its own and no port is `xdp:`, else `yield`.
    #[default]
    Auto,
}

/// How packets that match no rule are spread over the workers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Balance {
    /// Entries of the NIC's redirection table move from the busiest worker to others.
    #[default]
    Load,
    /// Each worker keeps an equal number of entries.
    Off,
}

/// What happens to packets on their way when an entry of the redirection table moves.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum MoveOrder {
    /// As `drain`, but the move begins when the old worker has just emptied its queue, or after 1 ms, so that the new worker hardly waits.
    #[default]
    Idle,
    /// The new worker leaves its queue alone until the old one has emptied its own, so that no packet overtakes another of its connection.
    Drain,
    /// No worker waits, and packets may overtake others of their connection.
    Instant,
}
