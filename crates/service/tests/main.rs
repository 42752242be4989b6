//! The integration tests of `service` in one program, which is compiled and linked once:
//! each subject is a module, whose name selects its tests.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests may")]

mod bind;
mod classes;
mod common;
mod draining;
mod health;
mod lookup;
mod pool;
mod quic_lb;
mod routing;
mod schedulers;
mod sharing;
mod succession;
