//! Encoding `queue`: the rule's receive queue names service, backend and next hop.
pub(crate) mod action;
pub(crate) mod tags;
