//! How a middlebox is made.
use balance::Settings as Balance;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::class::{Hash, Traffic};
use crate::function::Silence;
use crate::streams::Streams;
use crate::tag::Tagging;

/// Where the time comes from that a frame was with its function.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Stamp {
    /// From the server's own memory: the frame stays as it is, and no stay is too long.
    #[default]
    Side,
    /// From the IPv4 identification, as in the thesis: 256 ns steps, modulo 16.777 ms. The
    /// identification is put back on the way out. Fragments and IPv6 are not stamped, and
    /// go by the server's own memory.
    Identification,
}

/// What becomes of frames when no function is up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum AllDown {
    /// They are dropped: what must be inspected does not pass without inspection.
    #[default]
    Drop,
    /// They go straight to the paired port.
    Pass,
}

/// What a middlebox does.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The pairs of ports.
    pub streams: Streams,
    /// How each function's frames are tagged; as many as there are functions.
    pub functions: Vec<Tagging>,
    /// Buckets, algorithm, order; its number of CPUs is that of `functions`.
    pub balance: Balance,
    /// The function of each bucket at the start; `None`: contiguous blocks.
    pub map: Option<Vec<u16>>,
    /// From flow to bucket.
    pub hash: Hash,
    /// From stamp to latency.
    pub stamp: Stamp,
    /// What is done with what has no flow.
    pub traffic: Traffic,
    /// When a function counts as dead.
    pub silence: Silence,
    /// What is done when all do.
    pub all_down: AllDown,
}

/// Why there is no middlebox of some settings.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SettingsError {
    /// The balancer's numbers.
    #[error(transparent)]
    Balance(#[from] balance::SettingsError),
    /// The balancer balances another number of CPUs.
    #[error("{cpus} CPUs are balanced, and there are {functions} functions")]
    Functions {
        /// What the balancer was asked for.
        cpus: u16,
        /// What there is.
        functions: usize,
    },
}
