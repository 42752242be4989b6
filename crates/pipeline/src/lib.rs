//! Packets in batches: parse, match, act.
#![forbid(unsafe_code)]

pub mod encoding;
