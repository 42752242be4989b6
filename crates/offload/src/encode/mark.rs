//! Encoding `mark`: the rule's mark names the connection and its direction.
pub(crate) mod pool;
