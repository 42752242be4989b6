//! The whole data path without a device: deterministic, by the capture's own clock.
//!
//! [`Simulation`] is HNLB with heap packets instead of mbufs and one thread
//! instead of many; the stages, tables, NIC and offload side are the same code
//! as in the running program. [`replay`] drives it with a capture.
#![forbid(unsafe_code)]

pub mod capture;
mod neighbours;
mod outbox;
mod run;
mod simulation;

pub use outbox::Sent;
pub use run::{Replayed, destination, replay};
pub use simulation::{Options, Simulation, SimulationError};
