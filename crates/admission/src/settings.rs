//! How admission is set up.
use std::fmt;
use std::str::FromStr;

/// Who gets a hardware entry.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Policy {
    /// Nobody.
    Off,
    /// Whoever asks, first come first served, as in the HNLB paper.
    #[default]
    All,
    /// Whoever is measured to be heavy.
    Heavy,
}

impl Policy {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Off, Self::All, Self::Heavy];

    /// The name used in configurations and logs.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::All => "all",
            Self::Heavy => "heavy",
        }
    }
}

impl fmt::Display for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// A name that is no policy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownPolicy(pub String);

impl fmt::Display for UnknownPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "unknown policy \"{}\": expected one of \"heavy\", \"all\", \"off\"", self.0)
    }
}

impl std::error::Error for UnknownPolicy {}

impl FromStr for Policy {
    type Err = UnknownPolicy;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        let found = Self::ALL.into_iter().find(|policy| policy.name() == name);
        found.ok_or_else(|| UnknownPolicy(name.to_owned()))
    }
}

/// The settings of [`Admission`](crate::Admission).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Who gets an entry.
    pub policy: Policy,
    /// Rules that a port may be asked to create in a second; `None`: as many as
    /// the card takes. See [`Budget`](crate::Budget).
    pub insertions_per_second: Option<u32>,
    /// Percent of the entries that are kept free for newcomers: while an
    /// evicted rule settles, its successor is in already. At least one entry,
    /// and never more than half of them.
    pub reserve_percent: u8,
    /// A newcomer's rate must be at least so many percent of the rate of the
    /// one that goes for it; 100 or more.
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
            policy: Policy::default(),
            insertions_per_second: None,
            reserve_percent: 2,
            factor_percent: 125,
            stay_ms: 1_000,
            tracked: 1 << 16,
        }
    }
}
