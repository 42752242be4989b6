//! Which connections deserve a hardware entry.
//!
//! Entries are few and insertions are slow, so a connection gets one when it is worth
//! it: "only a subset of the connections causes a large share of the rate" (HNLB
//! paper, section VIII). Workers report one packet in so many; from these samples
//! [`Admission`] measures the rates of connections in software and in hardware alike,
//! and says which ones go in and which come out.
//!
//! Pure logic: no threads, no clock, no card. Times are milliseconds passed in.
#![forbid(unsafe_code)]

mod admission;
mod budget;
mod counters;
mod held;
mod key;
mod meter;
mod order;
mod settings;
mod sketch;
mod standing;

pub use admission::{Admission, Decisions, Room};
pub use budget::Budget;
pub use counters::{Counters, Passed};
pub use key::Key;
pub use meter::Meter;
pub use settings::Settings;
pub use sketch::{Sketch, Tracked};
pub use standing::{CardRefusal, Cause, Reason, Standing};
