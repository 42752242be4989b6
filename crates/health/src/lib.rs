//! Health checks of backends.
//!
//! A [`Monitor`] decides from the outcomes of probes whether one backend is up:
//! a state machine without a clock or a socket. A [`Fleet`] has the monitors of
//! all backends and says which probe is due when. [`run`] is the thread that
//! makes the probes, over the kernel's sockets, and tells what changes.
//!
//! A [`Watch`] decides from what workers have counted for one backend (passive
//! signals), and [`Watches`] has those of all backends. Both decide independently:
//! a backend serves if neither has it down.
//!
//! No worker takes part: a hung or dead prober leaves every backend as it is.
#![forbid(unsafe_code)]

mod board;
mod check;
mod fleet;
mod jitter;
mod monitor;
mod passive;
mod probe;
mod runner;
mod silence;
mod slow_start;
mod target;
mod watches;

pub use board::{Board, Record};
pub use check::{Check, HttpCheck};
pub use fleet::{Fleet, Ticket};
pub use monitor::{Change, Monitor, Outcome, Settings, State};
pub use passive::{LONGEST, PassiveSettings, Seen, Watch};
pub use probe::dns;
pub use runner::{Told, run};
pub use target::{Target, TargetKey};
pub use watches::{Standing, Watched, Watches};
