//! The integration tests of `replay` in one program, which is compiled and linked once:
//! each subject is a module, whose name selects its tests.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests may")]

mod consistency;
mod equality;
mod forwarding;
mod golden;
mod http;
mod inserted_backend;
mod least_latency;
mod neighbour_change;
mod pressure;
mod quic;
mod reload;
mod reset_on_remove;
mod rewrite;
mod spliced;
mod stateless;
mod stateless_crash;
mod timeouts;
mod tunnels;
