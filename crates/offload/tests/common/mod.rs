//! A world for the offload side to live in: connections, cards, receive queues.
#![allow(dead_code, unreachable_pub)]

pub mod card;
pub mod world;
