//! Deep packet inspection by libndpi (LGPL-3.0, linked dynamically) as a network
//! function: what the thesis runs on each CPU (section 5.1.2).
//!
//! This crate's `unsafe` is the calls into the shim beside it, all of them in `library`.

pub mod check;
mod flows;
mod frames;
mod inspector;
mod library;
pub mod record;
mod replay;

pub use frames::Conversation;
pub use inspector::Inspector;
