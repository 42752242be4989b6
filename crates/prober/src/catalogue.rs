//! The kinds of rules that HNLB could use.
mod packets;
mod receive;
mod switch;

pub(crate) use receive::{actions, matches};
pub(crate) use switch::{entry, fields, outlets, tunnels};
