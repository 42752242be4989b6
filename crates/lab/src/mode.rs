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
    /// Packets go in IP packets; backends answer as with `dsr`.
    Ipip,
    /// Packets go in UDP; backends answer as with `dsr`.
    Gue,
    /// Packets go behind a GRE header; backends answer as with `dsr`.
    Gre,
}

impl Mode {
    /// Its name in the configuration.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Nat => "nat",
            Self::Dsr => "dsr",
            Self::Ipip => "ipip",
            Self::Gue => "gue",
            Self::Gre => "gre",
        }
    }

    /// Whether backends get packets as clients sent them, and answer past HNLB.
    #[must_use]
    pub const fn is_one_way(self) -> bool {
        !matches!(self, Self::Nat)
    }

    /// Whether packets travel inside others.
    #[must_use]
    pub const fn is_tunnel(self) -> bool {
        matches!(self, Self::Ipip | Self::Gue | Self::Gre)
    }
}
