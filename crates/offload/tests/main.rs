//! The integration tests of `offload` in one program, which is compiled and linked once:
//! each subject is a module, whose name selects its tests.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests may")]

mod common;
mod emulated_nic;
mod heavy;
mod limits;
mod mark_fallback;
mod model;
mod overdue;
mod probe;
mod rewrite;
mod spread;
mod traffic;
