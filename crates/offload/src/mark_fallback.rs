//! Encoding `rewrite`: connections that can't be rewritten get a mark, where
//! the card takes marks. Its rules are the port's own, behind the switch: what
//! no transfer rule sends elsewhere meets them.
use std::collections::BTreeMap;
use std::fmt;

use conntrack::ConnId;
use dpdk::flow::Rule;
use flow::PortId;
use wire::FlowKey;

use crate::FlowType;
use crate::connection::Tag;
use crate::encode::rewrite::Shape;
use crate::environment::{Connections, PortTables};
use crate::offloader::Offloader;
use crate::port::{Attempt, Job, Owner, PortRules};

/// Why no rule rewrites the packets of one direction of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotRewritten {
    /// An interface has a VLAN tag.
    Tagged,
    /// Packets may come that are too long for where they go.
    Mtu,
    /// The card can't send packets out of that port.
    NoOutput,
    /// The card can't do that to packets.
    NotEncodable,
    /// The card takes no such rules for the flow type.
    Unsupported,
    /// The card would not take the rule, after several tries.
    Failed,
    /// The card took a rule for a tunnel, which packets did not match: they have
    /// a traffic class.
    Unmatched,
}

impl fmt::Display for NotRewritten {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Tagged => "an interface has a VLAN tag",
            Self::Mtu => "packets may be too long for where they go",
            Self::NoOutput => "the card can't send out of that port",
            Self::NotEncodable => "the card can't do that to packets",
            Self::Unsupported => "the card rewrites no such flows",
            Self::Failed => "the card would not take the rule",
            Self::Unmatched => "the packets have a traffic class, which a tunnel's rule can't copy",
        })
    }
}

/// Connections remembered as not matched.
const REMEMBERED: usize = 1 << 16;

/// Connections whose rules for a tunnel their packets did not match, and how
/// many had had their ids then.
#[derive(Debug, Default)]
pub(crate) struct Unmatched(BTreeMap<ConnId, u32>);

impl Unmatched {
    pub(crate) fn note(&mut self, conn: ConnId, generation: u32) {
        if self.0.len() >= REMEMBERED {
            self.0.pop_first();
        }
        self.0.insert(conn, generation);
    }

    /// Whether that is so of `conn` now. Of an id used again it is forgotten.
    pub(crate) fn is_known(&mut self, conn: ConnId, generation: u32) -> bool {
        let known = self.0.get(&conn) == Some(&generation);
        if !known {
            self.0.remove(&conn);
        }
        known
    }
}

impl PortRules {
    /// Whether what can't be rewritten gets a mark.
    pub(crate) fn has_second_best(&self) -> bool {
        self.rewrites() && self.mark_instead
    }

    /// A mark for `job` and its rule, on a port that rewrites.
    pub(crate) fn second_best(
        &mut self,
        job: &Job,
        key: &FlowKey,
        tables: PortTables<'_>,
    ) -> Result<(Tag, Rule, Shape), Attempt> {
        if self.keys.contains(key) {
            // Of two connections that are the same to the card one has a rule.
            self.done.refused.other += 1;
            return Err(Attempt::Failed { asked: false });
        }
        let Ok((tag, rule)) = self.marked(job, key, tables) else {
            self.done.refused.no_mark += 1;
            return Err(Attempt::Refused { asked: false, why: None });
        };
        Ok((tag, rule, Shape::Marked { kind: FlowType::of(key).index() }))
    }
}

impl<C: Connections> Offloader<C> {
    /// Puts `owner`, who can't be rewritten, in line at `port` for a mark.
    /// `false`: there is none to be had, or this was about one.
    pub(crate) fn mark_instead(&mut self, owner: Owner, port: PortId, why: NotRewritten) -> bool {
        let (conn, direction) = owner;
        let Some(rules) = self.ports.get_mut(usize::from(port.0)) else { return false };
        let Some(entry) = self.entries.get_mut(&conn) else { return false };
        let not_rewritten = entry.not_rewritten_mut(direction);
        if !rules.has_second_best() || not_rewritten.is_some() {
            return false;
        }
        *not_rewritten = Some(why);
        rules.line.push_front(owner);
        self.finish_if_bare(conn);
        true
    }
}
