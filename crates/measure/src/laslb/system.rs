//! What spreads packets over the processors.
use balance::{Kind, Marks, Order, Settings};

/// Processors of the thesis' server that inspect packets.
pub(crate) const CPUS: u16 = 8;
/// Buckets of the thesis' balancer.
pub(crate) const BUCKETS: u16 = 32;
/// The thesis' time between triggers in nanoseconds.
pub(crate) const TRIGGER_NS: u64 = 2_000_000;

/// A way to spread packets.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum System {
    /// The NIC's hash names the processor.
    Rss,
    /// A balancer in software on the same processors: it gives a new flow to the instance
    /// of least recent load, and costs time for every packet.
    Slb,
    /// The thesis' structure with one of the algorithms and a time between triggers.
    Buckets(Kind, u64),
}

impl System {
    /// All of them, the thesis' four first.
    pub(crate) fn all() -> [Self; 7] {
        let buckets = |kind| Self::Buckets(kind, TRIGGER_NS);
        let marks = Marks::default();
        [
            Self::Rss,
            Self::Slb,
            buckets(Kind::Low2(marks)),
            buckets(Kind::Max(marks)),
            buckets(Kind::Rsspp),
            buckets(Kind::Dsw),
            buckets(Kind::Even),
        ]
    }

    /// LOW2 with the thesis' three times between triggers.
    pub(crate) fn periodicities() -> [Self; 3] {
        [100_000, TRIGGER_NS, 30_000_000].map(|ns| Self::Buckets(Kind::Low2(Marks::default()), ns))
    }

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Rss => "rss",
            Self::Slb => "slb",
            Self::Buckets(kind, _) => kind.name(),
        }
    }

    pub(crate) const fn trigger_ns(self) -> Option<u64> {
        match self {
            Self::Buckets(_, ns) => Some(ns),
            _ => None,
        }
    }

    /// Whether it is what HNLB does by default.
    pub(crate) fn is_default(self) -> bool {
        self == Self::Buckets(Settings::default().algorithm, TRIGGER_NS)
    }

    /// The balancer, with the order that belongs to the algorithm: none of the thesis' and
    /// of RSS++, DSW's pauses, HNLB's default.
    pub(crate) fn settings(self) -> Option<Settings> {
        let Self::Buckets(algorithm, trigger_ns) = self else { return None };
        let order = match algorithm {
            Kind::Even | Kind::Still => Order::default(),
            Kind::Dsw => Order::Drain { hold_ns: 5_000_000, held: 1024 },
            Kind::Max(_) | Kind::Low2(_) | Kind::Rsspp => Order::Instant,
        };
        let base = Settings::default();
        Some(Settings { cpus: CPUS, buckets: BUCKETS, algorithm, order, trigger_ns, ..base })
    }
}
