//! The kernel as the NIC: an XDP program that matches the 5-tuple of established
//! connections, rewrites their packets as software would, and sends them on.
//!
//! The program is `bpf/forward.c`. Its match table ([`Table`]) is an array that this
//! process maps, so a connection is inserted, moved, removed and counted without a
//! system call while the program reads. Everything that the program doesn't match, or
//! that software has to see, goes up untouched.
#![forbid(unsafe_code)]

mod action;
mod actions;
mod bench;
mod classes;
mod entry;
mod error;
mod flows;
mod gate;
mod interface;
mod leftovers;
mod lower;
mod program;
mod sockets;
mod stateless;
mod table;
mod up;
mod verdict;

pub use action::{Action, Change};
pub use bench::{Bench, Course, System};
pub use entry::Key;
pub use error::Error;
pub use flows::{KernelFlows, Output};
pub use gate::Gate;
pub use interface::{Features, Interface, Mode};
pub use leftovers::{Leftover, Leftovers, Way};
pub use program::{Outcome, Program, Ran, Settings};
pub use sockets::Sockets;
pub use table::{Count, Full, Table};
pub use up::Up;
