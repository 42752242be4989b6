//! The integration tests of `tls` in one program, which is compiled and linked once:
//! each subject is a module, whose name selects its tests.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests may")]

mod backends;
mod handed_over;
mod keys;
mod pool;
mod sessions;
