//! How admission is set up.
use flow::AdmissionPolicy;

/// The settings of [`Admission`](crate::Admission).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Which connections get an entry.
    pub policy: AdmissionPolicy,
    /// Rules that a port may be asked to create in a second; `None`: as many as
    /// the card takes. See [`Budget`](crate::Budget).
    pub insertions_per_second: Option<u32>,
    /// Percent of the entries that are kept free for newcomers: while an
    /// evicted rule settles, its successor is in already. At least one entry,
    /// and never more than half of them.
    pub reserve_percent: u8,
    /// A newcomer's rate must be at least so many percent of the rate of the
    /// connection that makes room; 100 or more.
    pub factor_percent: u32,
    /// A connection that has got an entry keeps it so long, in milliseconds,
    /// and is measured meanwhile.
    pub stay_ms: u64,
    /// Connections in software whose rate is known at a time, about 300 bytes
    /// each. Eight for each entry are enough to find the heaviest.
    pub tracked: usize,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            policy: AdmissionPolicy::All,
            insertions_per_second: None,
            reserve_percent: 2,
            factor_percent: 125,
            stay_ms: 1_000,
            tracked: 1 << 16,
        }
    }
}
