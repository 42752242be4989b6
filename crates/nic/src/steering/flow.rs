//! A rule as a steering table holds it.
use std::sync::Arc;

use super::header_key::HeaderKey;
use crate::edits::Edits;
use crate::encap::Encap;

/// Which tables a rule lives in. Every port has its own of both kinds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Domain {
    /// The switch between wires and host: transfer rules. First in the way.
    Switch,
    /// The receive side of the port: ingress rules.
    Receive,
}

/// Where a rule's packets go in the end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    /// To this receive queue.
    Queue(u16),
    /// To one of these receive queues, by the hash.
    Rss(Arc<[u16]>),
    /// Nowhere.
    Drop,
    /// On to this group of the same domain.
    Jump(u32),
    /// Out of this port.
    Port(u16),
}

/// A rule's place: no two rules of a port have the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Place {
    /// The kind of tables.
    pub(crate) domain: Domain,
    /// The table.
    pub(crate) group: u32,
    /// 0 is looked at first.
    pub(crate) priority: u32,
    /// The rows of a table of rules by index; the rule is found by a hash of the
    /// bits in `mask` then, and `value` holds its index.
    pub(crate) rows: Option<u32>,
    /// The bits that must agree.
    pub(crate) mask: HeaderKey,
    /// With this value.
    pub(crate) value: HeaderKey,
}

/// A rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Flow {
    /// What it matches, and where.
    pub(crate) place: Place,
    /// What it changes.
    pub(crate) edits: Edits,
    /// What it then puts in front.
    pub(crate) encap: Option<Encap>,
    /// The mark it reports.
    pub(crate) mark: Option<u32>,
    /// Where its packets go.
    pub(crate) fate: Fate,
    /// Whether it has a COUNT action.
    pub(crate) count: bool,
    /// Seconds without a packet after which it is aged out; 0: never.
    pub(crate) age_s: u32,
}
