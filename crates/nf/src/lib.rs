//! A middlebox server without its devices (LASLB, chapters 3 and 4): frames of physical
//! ports go through one of several instances of a network function (NF) and leave by
//! the paired port.
//!
//! ```text
//! from_port: class -> bucket -> instance -> stamp and tag -> to_function
//! from_function: tag -> ledger -> latency -> restore -> to_port
//! ```
//!
//! [`Middlebox`] is the state machine of one thread, generic over the packet buffer and
//! without a clock of its own; [`balance`] decides which instance a bucket is on.
#![forbid(unsafe_code)]

mod class;
mod counters;
mod function;
mod ledger;
mod middlebox;
mod settings;
mod stamp;
mod streams;
mod tag;

pub use class::{Class, Hash, NoFlow, Policy, Traffic};
pub use counters::{Drop, FunctionCounters, PortCounters};
pub use function::{Health, Silence};
pub use middlebox::{Middlebox, Outbox};
pub use settings::{AllDown, Settings, SettingsError, Stamp};
pub use streams::{Direction, Stream, StreamError, Streams};
pub use tag::{Tag, Tagged, Tagging};
