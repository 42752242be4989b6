//! `[workers]`: the cores that move packets.
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The worker cores and how they poll.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Workers {
    /// How many workers, each with a core and its own receive queues.
    #[schemars(range(min = 1, max = 64))]
    pub count: u16,
    /// The processor cores to pin them to, at least `count`; empty: whichever are free.
    #[schemars(inner(range(min = 0, max = 1023)))]
    pub cores: Vec<u16>,
    /// The processor core of everything that isn't a worker; by default one that is free.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 1023))]
    pub main_core: Option<u16>,
    /// The most packets taken from a queue at once. Some drivers hand out multiples of 8 only.
    #[schemars(range(min = 8, max = 64))]
    pub burst: u16,
    /// Receive queues of each port without emulated NIC, if the encoding is `queue` or `mark`.
    #[schemars(range(min = 1, max = 256))]
    pub queues: u16,
    /// What a worker does when there are no packets.
    pub idle: Idle,
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
        }
    }
}

/// What a worker does when there are no packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Idle {
    /// Polls on without pause: the least latency, a core of its own is needed.
    Spin,
    /// Gives the core to others after some empty polls.
    Yield,
    /// `spin` if every thread has a core of its own, else `yield`.
    #[default]
    Auto,
}
