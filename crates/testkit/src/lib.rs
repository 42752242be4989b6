//! What the tests of several crates need: frames ([`frames`], [`segments`]),
//! with feature `program` configurations (`ConfigText`) and the built program
//! (`Program`). Only for tests, so what can't be is a panic.
#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, clippy::panic, reason = "only tests use this crate")]

#[cfg(feature = "program")]
mod config_text;
pub mod frames;
#[cfg(feature = "program")]
mod program;
pub mod segments;

#[cfg(feature = "program")]
pub use config_text::ConfigText;
#[cfg(feature = "program")]
pub use program::{PATIENCE, Program};
