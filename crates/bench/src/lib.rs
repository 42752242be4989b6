//! Measurements of HNLB's parts, side by side with what they replace.
//!
//! So far: the connection table against DPDK's rte_hash ([`table`]).
#![forbid(unsafe_code)]

pub mod table;
