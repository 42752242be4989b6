//! What is compared.
use offload::Encoding;

/// A load balancer, or what bounds all of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum System {
    /// Receives, rewrites with one fixed action, sends: no match at all.
    Limit,
    /// The software load balancer as in the paper: one packet at a time, one
    /// `rte_hash` lookup each, no prefetch.
    SlbPaper,
    /// HNLB with encoding `off`.
    Slb,
    /// HNLB with encoding `queue`, the paper's own.
    HnlbQueue,
    /// HNLB with encoding `mark`.
    HnlbMark,
}

impl System {
    /// All of them, in the order of the reports.
    pub const ALL: [Self; 5] =
        [Self::Limit, Self::SlbPaper, Self::Slb, Self::HnlbQueue, Self::HnlbMark];

    /// The name in rows.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Limit => "limit",
            Self::SlbPaper => "slb-paper",
            Self::Slb => "slb",
            Self::HnlbQueue => "hnlb-queue",
            Self::HnlbMark => "hnlb-mark",
        }
    }

    /// What its NIC tells it.
    #[must_use]
    pub const fn encoding(self) -> Encoding {
        match self {
            Self::Limit | Self::SlbPaper | Self::Slb => Encoding::Off,
            Self::HnlbQueue => Encoding::Queue,
            Self::HnlbMark => Encoding::Mark,
        }
    }
}

/// A name that is no system's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no system is named '{0}'; there are limit, slb-paper, slb, hnlb-queue and hnlb-mark")]
pub struct UnknownSystem(String);

impl std::str::FromStr for System {
    type Err = UnknownSystem;

    fn from_str(name: &str) -> Result<Self, UnknownSystem> {
        let named = Self::ALL.into_iter().find(|system| system.name() == name);
        named.ok_or_else(|| UnknownSystem(name.to_owned()))
    }
}
