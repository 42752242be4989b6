//! Packets in, packets out.
//!
//! What must come out is built by etherparse, which knows nothing of rewrite
//! plans and computes every checksum anew.

mod link;
mod nat;
mod world;
