//! Why a rule doesn't rewrite the packets of a connection.
use std::fmt;

/// Why no rule rewrites the packets of one direction of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
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
