//! The integration tests of `health` in one program, which is compiled and linked once:
//! each subject is a module, whose name selects its tests.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests may")]

mod dns;
mod fleet;
mod monitor;
mod passive;
mod probes;
