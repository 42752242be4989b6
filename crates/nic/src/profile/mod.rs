//! What a card takes: one table of capabilities and one rule parser a card.

mod e810;
mod x550;

use std::fmt;
use std::str::FromStr;

use dpdk::flow::{FlowError, FlowErrorKind, Rule};

use crate::key::{FlowType, Key};

/// The card that the emulated NIC plays.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProfileKind {
    /// Intel X550 (ixgbe): Flow Director in perfect mode.
    X550,
    /// Intel E810 (ice): Flow Director.
    E810,
}

impl ProfileKind {
    /// Every profile.
    pub const ALL: &[Self] = &[Self::X550, Self::E810];

    pub(crate) fn card(self) -> &'static Card {
        match self {
            Self::X550 => &x550::CARD,
            Self::E810 => &e810::CARD,
        }
    }

    /// The name in a configuration.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.card().name
    }
}

impl fmt::Display for ProfileKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for ProfileKind {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let found = Self::ALL.iter().find(|kind| kind.name() == name);
        found.copied().ok_or_else(|| format!("no NIC profile `{name}`: x550 or e810"))
    }
}

/// Where a rule's packets go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Target {
    /// This receive queue.
    Queue(u16),
    /// Nowhere.
    Drop,
    /// Where RSS sends them.
    Rss,
}

/// A rule as the card's registers hold it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Filter {
    /// The flow type.
    pub(crate) kind: FlowType,
    /// The value, masked.
    pub(crate) key: Key,
    /// The bits of the key that count.
    pub(crate) mask: Key,
    /// Where its packets go.
    pub(crate) target: Target,
    /// What it reports with them.
    pub(crate) mark: Option<u32>,
    /// The mark that must be the rule's own, if the card asks for that.
    pub(crate) soft_id: Option<u32>,
    /// Whether it has a COUNT action.
    pub(crate) count: bool,
}

/// How a card's numbers of filters are given.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Capacities {
    /// Only these numbers.
    OneOf(&'static [usize]),
    /// Any number from 1 to this.
    UpTo(usize),
}

/// A card's limits and manners.
pub(crate) struct Card {
    /// The profile's name.
    pub(crate) name: &'static str,
    /// Numbers of filters it can be configured for.
    pub(crate) capacities: Capacities,
    /// The number of filters without configuration.
    pub(crate) default_capacity: usize,
    /// Receive queues at most.
    pub(crate) max_queues: u16,
    /// Receive queues that the redirection table can name.
    pub(crate) max_rss_queues: u16,
    /// Sizes of the redirection table.
    pub(crate) reta_sizes: &'static [usize],
    /// One input mask for the port, not one per flow type.
    pub(crate) one_mask: bool,
    /// Whether filters can match IPv6.
    pub(crate) ipv6: bool,
    /// Whether rules can COUNT and be queried.
    pub(crate) counts: bool,
    /// The receive buffer in KiB that `capacity` filters leave.
    pub(crate) rx_buffer_kib: fn(usize) -> Option<u32>,
    /// Checks a rule's format for a port with so many queues.
    pub(crate) parse: fn(&Rule, u16) -> Result<Filter, FlowError>,
    /// What is only found when the rule is created.
    pub(crate) program: fn(&Filter) -> Result<(), FlowError>,
    /// The driver's words for the refusals that depend on the other rules.
    pub(crate) words: Words,
}

/// A driver's words for refusals that depend on the other rules.
pub(crate) struct Words {
    /// The table has no room.
    pub(crate) full: &'static str,
    /// The rule is there.
    pub(crate) duplicate: &'static str,
    /// Other rules have another input mask.
    pub(crate) mask: &'static str,
    /// The soft id is another rule's.
    pub(crate) soft_id: &'static str,
}

/// A refusal with `errno`.
pub(crate) fn refuse(kind: FlowErrorKind, errno: i32, message: impl Into<String>) -> FlowError {
    FlowError { kind, errno, message: message.into() }
}
