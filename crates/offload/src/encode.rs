//! How a rule is made from a connection, one file for each encoding.
pub(crate) mod mark;
pub(crate) mod queue;
pub(crate) mod rewrite;
pub(crate) mod stateless;
pub(crate) mod tunnel;
