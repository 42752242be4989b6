//! What the tests of several crates need: frames ([`frames`], [`segments`]),
//! configurations ([`ConfigText`]) and the built program ([`Program`]). Only for
//! tests, so what can't be is a panic.
#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, clippy::panic, reason = "only tests use this crate")]

mod config_text;
pub mod frames;
mod program;
pub mod segments;

pub use config_text::ConfigText;
pub use program::{PATIENCE, Program};
