//! How large a table is made.
use service::Timeouts;

/// Most connections of one family: a record's number has 27 bits.
pub(crate) const MOST: usize = (1 << 27) - 1;

/// What a table is made from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableConfig {
    /// Most IPv4 connections at a time; may be 0.
    pub connections: usize,
    /// Most IPv6 connections at a time; may be 0.
    pub connections_v6: usize,
    /// Chooses the hash. Random in every run, so that no client can choose
    /// 5-tuples that collide; fixed where runs must be equal.
    pub seed: [u8; 32],
    /// How long connections are kept without packets.
    pub timeouts: Timeouts,
}

/// Why a table can't be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TableError {
    /// More connections than ids.
    #[error("a table for {connections} connections of one family is asked for; at most {MOST} fit")]
    TooLarge {
        /// How many were asked for.
        connections: usize,
    },
    /// The memory is not there.
    #[error(
        "{bytes} bytes for the connection table can't be allocated: configure fewer connections"
    )]
    Memory {
        /// How many bytes were asked for at once.
        bytes: usize,
    },
}

/// Buckets of 4 slots for the two keys of each of `connections` connections:
/// at most 4 of 5 slots are in use, which a search for room always reaches, and
/// most keys find room in their first bucket.
pub(crate) const fn buckets(connections: usize) -> usize {
    // Very small tables are less even: a few spare buckets make up for it.
    (connections * 5).div_ceil(8) + 8
}
