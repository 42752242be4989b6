//! Packets in, packets out.
//!
//! What must come out is built by etherparse, which knows nothing of rewrite
//! plans and computes every checksum anew.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod accounts;
mod ends;
mod equality;
mod exceptions;
mod first;
mod fragments;
mod icmp;
mod limits;
mod link;
mod mixtures;
mod nat;
mod neighbours;
mod odd;
mod one_way;
mod pings;
mod queues;
mod quic;
mod refusals;
mod revoked;
mod segments;
mod spliced;
mod tunnels;
mod waiting;
mod workers;
mod world;
