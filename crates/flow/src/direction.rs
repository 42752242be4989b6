//! The two directions of a connection.

/// The direction of a packet within its connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Direction {
    /// From the client to the backend.
    Forward,
    /// From the backend to the client.
    Reply,
}

impl Direction {
    /// Both directions, forward first.
    pub const BOTH: [Self; 2] = [Self::Forward, Self::Reply];

    /// The direction's place in arrays: 0 for forward, 1 for reply.
    #[must_use]
    pub const fn index(self) -> usize {
        match self {
            Self::Forward => 0,
            Self::Reply => 1,
        }
    }
}
