//! The integration tests of `wire` in one program, which is compiled and linked once:
//! each subject is a module, whose name selects its tests.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests may")]

mod encap;
mod fast_header;
mod icmp;
mod malformed;
mod neighbours;
mod parse;
mod reset;
mod rewrite;
mod support;
mod views;
