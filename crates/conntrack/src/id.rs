//! Names of connections.
use flow::Direction;

use crate::bucket::Reference;

/// A connection's place in the table: stable from insertion to removal, and
/// not given to another connection before every reader has passed a quiescent
/// point after the removal. The top bit says the family: 0 for IPv4, 1 for IPv6.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ConnId(u32);

impl ConnId {
    /// The id with this number; for tables that store ids in words of their own.
    #[must_use]
    pub const fn from_raw(raw: u32) -> Self {
        Self(raw)
    }

    /// The id's number.
    #[must_use]
    pub const fn raw(self) -> u32 {
        self.0
    }

    /// Whether the connection is one of IPv6 packets.
    #[must_use]
    pub const fn is_v6(self) -> bool {
        self.0 >> 31 != 0
    }

    /// The record's number within its family.
    pub(crate) const fn record(self) -> u32 {
        self.0 & (u32::MAX >> 1)
    }
}

/// A found connection and the direction of the packet that found it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Hit {
    /// The connection.
    pub conn: ConnId,
    /// The packet's direction.
    pub direction: Direction,
}

impl Hit {
    /// A reference of the index of the family with this bit in its ids.
    #[inline]
    pub(crate) const fn new(reference: Reference, id_bit: u32) -> Self {
        Self { conn: ConnId(reference.record() | id_bit), direction: reference.direction() }
    }

    /// The reference that `new` was given.
    #[inline]
    pub(crate) const fn reference(self) -> Reference {
        Reference::new(self.conn.record(), self.direction)
    }
}
