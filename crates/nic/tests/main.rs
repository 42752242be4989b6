//! The integration tests of `nic` in one program, which is compiled and linked once:
//! each subject is a module, whose name selects its tests.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests may")]

mod common;
mod connectx;
mod e810;
mod edits;
mod encap;
mod faults;
mod queues;
mod redirection;
mod reference;
mod setup;
mod steering;
mod threads;
mod x550;
mod xl710;
