//! Health checks of backends.
//!
//! A [`Monitor`] decides from the outcomes of probes whether one backend is up:
//! a state machine without a clock or a socket. A [`Fleet`] has the monitors of
//! all backends and says which probe is due when. [`run`] is the thread that
//! makes the probes, over the kernel's sockets, and tells what changes.
//!
//! No worker takes part: a hung or dead prober leaves every backend as it is.
#![forbid(unsafe_code)]

mod board;
mod check;
mod fleet;
mod jitter;
mod monitor;
mod probe;
mod runner;
mod target;

pub use board::{Board, Record};
pub use check::{Check, HttpCheck};
pub use fleet::{Fleet, Ticket};
pub use monitor::{Change, Monitor, Outcome, Settings, State};
pub use probe::dns;
pub use runner::{Told, run};
pub use target::{Target, TargetKey};
