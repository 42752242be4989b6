//! Names of connections.
use flow::Direction;

use crate::bucket::Reference;

/// A connection's place in the table: stable from insertion to removal, and
/// not given to another connection before every reader has passed a quiescent
/// point after the removal. The top bit says the family: 0 for IPv4, 1 for IPv6.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ConnId(u32);

/// The bit of ids that are no connection's of the table.
const LENT: u32 = 1 << 30;

impl ConnId {
    /// The id that a table beside the connection table lends under `number`, less than
    /// 2^30. The connection table has no such connection, since it has fewer records.
    #[must_use]
    pub const fn lent(number: u32, is_v6: bool) -> Self {
        Self((is_v6 as u32) << 31 | LENT | number & (LENT - 1))
    }

    /// The number under which the id was lent; `None`: it is one of the connection table's.
    #[must_use]
    pub const fn lent_number(self) -> Option<u32> {
        if self.0 & LENT != 0 { Some(self.0 & (LENT - 1)) } else { None }
    }

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
