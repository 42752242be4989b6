//! Keys of connections.

/// A connection: its id, and how many connections have had this id. Two that share an
/// id one after the other are two keys, so that no connection inherits a rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Key {
    /// The id's number.
    pub conn: u32,
    /// Connections that have had it, this one included, modulo 2^32.
    pub generation: u32,
}
