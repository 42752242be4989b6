//! Names of connections.
use service::Direction;

/// A connection's place in the table: stable from insertion to removal, and
/// not given to another connection before every reader has passed a quiescent
/// point after the removal.
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
}

/// A found connection and the direction of the packet that found it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Hit {
    /// The connection.
    pub conn: ConnId,
    /// The packet's direction.
    pub direction: Direction,
}
