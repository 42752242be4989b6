//! Measurements of HNLB's parts, side by side with what they replace.
//!
//! The connection table against DPDK's rte_hash ([`table`]); the policies that
//! give out hardware entries against one that knows all rates ([`admission`]);
//! stateless services in a model of a card ([`xenoflow`]).
#![forbid(unsafe_code)]

pub mod admission;
pub mod table;
pub mod xenoflow;
