//! What is compared.
use flow::Encoding;

/// A load balancer, or what bounds all of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum System {
    /// Receives, rewrites with one fixed action, sends: no match at all.
    Limit,
    /// The paper's software load balancer to the letter: one packet at a time,
    /// one `rte_hash` lookup each, no prefetch.
    SlbPaper,
    /// The same table as a DPDK program uses it: frames prefetched,
    /// `rte_hash_lookup_bulk`, HNLB's own parser and rewrite.
    SlbBulk,
    /// HNLB with encoding `off`.
    Slb,
    /// HNLB with encoding `queue`, the paper's own.
    HnlbQueue,
    /// HNLB with encoding `mark`.
    HnlbMark,
    /// HNLB with encoding `queue` and many more backends than queues: those
    /// beyond share a queue, and the rule's mark tells which of them it is (the
    /// paper's section VIII).
    HnlbShared,
}

/// Backends and receive queues of [`System::HnlbShared`].
const MANY_BACKENDS: u8 = 64;
const FEW_QUEUES: u16 = 4;

/// What a system asks of its NIC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Card {
    pub(crate) encoding: Encoding,
    pub(crate) backends: u8,
    /// Receive queues of a port that are polled, from `first` on; queue 0 is for
    /// packets that match nothing.
    pub(crate) queues: u16,
    pub(crate) first: u16,
    /// Whether backends share the first queue.
    pub(crate) shares: bool,
}

impl System {
    /// All of them, in the order of the reports.
    pub const ALL: [Self; 7] = [
        Self::Limit,
        Self::SlbPaper,
        Self::SlbBulk,
        Self::Slb,
        Self::HnlbQueue,
        Self::HnlbMark,
        Self::HnlbShared,
    ];

    /// The name in rows.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Limit => "limit",
            Self::SlbPaper => "slb-paper",
            Self::SlbBulk => "slb-bulk",
            Self::Slb => "slb",
            Self::HnlbQueue => "hnlb-queue",
            Self::HnlbMark => "hnlb-mark",
            Self::HnlbShared => "hnlb-shared",
        }
    }

    /// What its NIC tells it.
    #[must_use]
    pub const fn encoding(self) -> Encoding {
        match self {
            Self::Limit | Self::SlbPaper | Self::SlbBulk | Self::Slb => Encoding::Off,
            Self::HnlbQueue | Self::HnlbShared => Encoding::Queue,
            Self::HnlbMark => Encoding::Mark,
        }
    }

    /// Its NIC, with `backends`, if it has no number of its own: with encoding
    /// `queue` a queue for each, otherwise one for all.
    pub(crate) const fn card(self, backends: u8) -> Card {
        let encoding = self.encoding();
        let card = Card { encoding, backends, queues: 1, first: 0, shares: false };
        match self {
            Self::Limit | Self::SlbPaper | Self::SlbBulk | Self::Slb | Self::HnlbMark => card,
            // With one backend, as in the paper's best case, one queue is polled.
            Self::HnlbQueue if backends == 1 => Card { first: 1, ..card },
            Self::HnlbQueue => Card { queues: backends as u16 + 1, ..card },
            Self::HnlbShared => {
                Card { backends: MANY_BACKENDS, queues: FEW_QUEUES, shares: true, ..card }
            }
        }
    }
}

/// A name that is no system's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "no system is named '{0}'; there are limit, slb-paper, slb-bulk, slb, hnlb-queue, hnlb-mark and \
     hnlb-shared"
)]
pub struct UnknownSystem(String);

impl std::str::FromStr for System {
    type Err = UnknownSystem;

    fn from_str(name: &str) -> Result<Self, UnknownSystem> {
        let named = Self::ALL.into_iter().find(|system| system.name() == name);
        named.ok_or_else(|| UnknownSystem(name.to_owned()))
    }
}
