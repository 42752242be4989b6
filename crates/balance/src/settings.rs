//! How a balancer is made.
use crate::{Alpha, Kind, Order};

/// What a balancer balances, and how.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// CPUs, 1 to [`Settings::MOST_CPUS`].
    pub cpus: u16,
    /// Buckets, at least one for each CPU, at most [`Settings::MOST_BUCKETS`].
    pub buckets: u16,
    /// The algorithm.
    pub algorithm: Kind,
    /// How buckets move.
    pub order: Order,
    /// The least time between two runs of the algorithm in nanoseconds; without returned
    /// packets there are none.
    pub trigger_ns: u64,
    /// The weight of a new latency.
    pub alpha: Alpha,
}

impl Settings {
    /// The largest redirection table of the cards known to `nic` is 2048.
    pub const MOST_BUCKETS: u16 = 2048;
    /// As many as there can be workers.
    pub const MOST_CPUS: u16 = 64;

    pub(crate) fn check(&self) -> Result<(), SettingsError> {
        if self.cpus == 0 || self.cpus > Self::MOST_CPUS {
            return Err(SettingsError::Cpus(self.cpus));
        }
        if self.buckets < self.cpus || self.buckets > Self::MOST_BUCKETS {
            return Err(SettingsError::Buckets { buckets: self.buckets, cpus: self.cpus });
        }
        Ok(())
    }
}

impl Default for Settings {
    /// The thesis' parameters (appendix A.1) with the default algorithm and order.
    fn default() -> Self {
        Self {
            cpus: 8,
            buckets: 32,
            algorithm: Kind::Even,
            order: Order::default(),
            trigger_ns: 2_000_000,
            alpha: Alpha::THESIS,
        }
    }
}

/// Why there is no balancer of some settings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SettingsError {
    /// The number of CPUs.
    Cpus(u16),
    /// The number of buckets.
    Buckets {
        /// Buckets asked for.
        buckets: u16,
        /// CPUs that they are for.
        cpus: u16,
    },
    /// The map has another length than there are buckets.
    MapLength {
        /// Its length.
        length: usize,
        /// Buckets asked for.
        buckets: u16,
    },
    /// The map has a CPU that there isn't.
    MapCpu {
        /// The bucket.
        bucket: usize,
        /// Its CPU.
        cpu: u16,
        /// CPUs that there are.
        cpus: u16,
    },
}

impl std::fmt::Display for SettingsError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Cpus(cpus) => {
                write!(f, "{cpus} CPUs; a balancer has 1 to {}", Settings::MOST_CPUS)
            }
            Self::Buckets { buckets, cpus } => write!(
                f,
                "{buckets} buckets for {cpus} CPUs; a balancer has {cpus} to {}",
                Settings::MOST_BUCKETS
            ),
            Self::MapLength { length, buckets } => {
                write!(f, "a map of {length} buckets, and there are {buckets}")
            }
            Self::MapCpu { bucket, cpu, cpus } => {
                write!(f, "the map has bucket {bucket} on CPU {cpu}; there are 0 to {}", cpus - 1)
            }
        }
    }
}

impl std::error::Error for SettingsError {}
