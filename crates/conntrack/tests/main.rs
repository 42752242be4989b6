//! The integration tests of `conntrack` in one program, which is compiled and linked once:
//! each subject is a module, whose name selects its tests.
#![cfg(not(loom))]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests may")]

mod basics;
mod common;
mod fast;
mod model;
mod shares;
mod states;
