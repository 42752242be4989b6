//! A world for the offload side to live in: connections, cards, receive queues.
#![allow(dead_code, unreachable_pub, missing_docs)]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

pub mod card;
pub mod lab;
pub mod rewriting;
pub mod world;
