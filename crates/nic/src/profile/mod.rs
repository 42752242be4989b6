//! What a card takes: one table of capabilities and one rule parser a card.

mod e810;
mod full_masks;
mod mlx5;
mod x550;
mod xl710;

use dpdk::flow::{FlowError, FlowErrorKind, Rule};
use flow::CardProfile;

use crate::key::{FlowType, Key};
use crate::steering::{Domain, Flow, Place};

impl Profile {
    /// The limits and quirks of `profile`.
    pub(crate) const fn of(profile: CardProfile) -> &'static Self {
        match profile {
            CardProfile::X550 => &x550::PROFILE,
            CardProfile::Xl710 => &xl710::PROFILE,
            CardProfile::E810 => &e810::PROFILE,
            CardProfile::ConnectX => &mlx5::CONNECTX,
            CardProfile::BlueField3 => &mlx5::BLUEFIELD3,
        }
    }
}

/// How fast the real card is, as far as its figures are published.
#[must_use]
pub fn rates(profile: CardProfile) -> Rates {
    Profile::of(profile).rates
}

/// How fast a card is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rates {
    /// Nanoseconds that `create` takes; 0: not known.
    pub insert_ns: u64,
    /// Nanoseconds that a rule takes which is created through a queue.
    pub queued_insert_ns: u64,
    /// Packets a second that its tables match and rewrite.
    pub packets_per_second: Option<u64>,
}

impl Rates {
    const UNKNOWN: Self = Self { insert_ns: 0, queued_insert_ns: 0, packets_per_second: None };
}

/// What a rule's check needs to know of the port.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PortFacts<'a> {
    /// Receive queues.
    pub(crate) queues: u16,
    /// The ports that are one switch with it, itself included; empty: no switch.
    pub(crate) switch: &'a [u16],
    /// Whether the rule comes through a queue of operations.
    pub(crate) queued: bool,
    /// The highest group that the card has.
    pub(crate) highest_group: u32,
}

/// A rule as a card's tables hold it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Parsed {
    /// A filter of Flow Director.
    Director(Filter),
    /// A rule of a steering table.
    Steering(Box<Flow>),
}

/// The identity of a rule: no two rules of a port share it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Identity {
    /// A filter's masked key.
    Director(Key),
    /// A rule's place.
    Steering(Place),
}

impl Parsed {
    pub(crate) fn identity(&self) -> Identity {
        match self {
            Self::Director(filter) => Identity::Director(filter.key),
            Self::Steering(flow) => Identity::Steering(flow.place),
        }
    }

    /// The mark that must be the rule's own.
    pub(crate) fn soft_id(&self) -> Option<u32> {
        match self {
            Self::Director(filter) => filter.soft_id,
            Self::Steering(_) => None,
        }
    }

    /// Whether the rule has a COUNT action.
    pub(crate) fn counts(&self) -> bool {
        match self {
            Self::Director(filter) => filter.count,
            Self::Steering(flow) => flow.count,
        }
    }

    /// Seconds without a packet after which the rule is aged out; 0: never.
    pub(crate) fn age_s(&self) -> u32 {
        match self {
            Self::Director(_) => 0,
            Self::Steering(flow) => flow.age_s,
        }
    }

    /// Whether it is in the receive side's root group, which is smaller.
    pub(crate) fn in_root(&self) -> bool {
        matches!(self, Self::Steering(flow)
            if flow.place.domain == Domain::Receive && flow.place.group == 0)
    }
}

/// Where a filter's packets go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Target {
    /// This receive queue.
    Queue(u16),
    /// Nowhere.
    Drop,
    /// Where RSS sends them.
    Rss,
}

/// A rule as Flow Director's registers hold it.
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

/// A card's limits and quirks, beside those that [`CardProfile`] states.
pub(crate) struct Profile {
    /// Which card it is.
    pub(crate) profile: CardProfile,
    /// Receive queues at most.
    pub(crate) max_queues: u16,
    /// Sizes of the redirection table.
    pub(crate) reta_sizes: &'static [usize],
    /// One input mask for the port, not one per flow type.
    pub(crate) one_mask: bool,
    /// Whether rules can COUNT and be queried.
    pub(crate) counts: bool,
    /// The highest group of each domain; 0: there is the root alone.
    pub(crate) highest_group: u32,
    /// Whether the driver is that of DPDK 24.11: it has tables of rules by index,
    /// and makes rules one by one beside those of its queues.
    pub(crate) rules_by_index: bool,
    /// How fast the real one is.
    pub(crate) rates: Rates,
    /// The receive buffer in KiB that `capacity` filters leave.
    pub(crate) rx_buffer_kib: fn(usize) -> Option<u32>,
    /// Checks a rule's format for a port.
    pub(crate) parse: fn(&Rule, &PortFacts<'_>) -> Result<Parsed, FlowError>,
    /// The check that is only made when the rule is created.
    pub(crate) program: fn(&Parsed) -> Result<(), FlowError>,
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

pub(crate) use mlx5::{ROOT_RULES, check_template};

/// Refuses rules that are not in the root of the receive side, as the drivers of Flow
/// Director do; `no_transfer` is the driver's word for rules of a switch.
fn ingress_root(rule: &Rule, no_transfer: &str) -> Result<(), FlowError> {
    let attributes = &rule.attributes;
    let message = if !attributes.ingress {
        "Only support ingress."
    } else if attributes.egress {
        "Not support egress."
    } else if attributes.transfer {
        no_transfer
    } else if attributes.priority != 0 {
        "Not support priority."
    } else if attributes.group != 0 {
        "Not support group."
    } else {
        return Ok(());
    };
    Err(refuse(FlowErrorKind::Attribute, FlowError::INVALID, message))
}

/// A refusal with `errno`.
pub(crate) fn refuse(kind: FlowErrorKind, errno: i32, message: impl Into<String>) -> FlowError {
    FlowError { kind, errno, message: message.into() }
}
