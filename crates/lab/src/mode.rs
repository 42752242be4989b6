//! How HNLB's packets get to the backends of the lab.

/// The mode of every service.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Mode {
    /// HNLB rewrites the destination, and answers come back through it.
    #[default]
    Nat,
    /// Packets go to the backend's Ethernet address as they are, and backends
    /// answer clients past HNLB.
    Dsr,
}

impl Mode {
    /// Its name in the configuration.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Nat => "nat",
            Self::Dsr => "dsr",
        }
    }

    /// Whether backends get packets as clients sent them, and answer past HNLB.
    #[must_use]
    pub const fn is_one_way(self) -> bool {
        !matches!(self, Self::Nat)
    }
}
