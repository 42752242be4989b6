//! The whole data path without a device: deterministic, by the capture's own clock.
//!
//! [`Simulation`] is HNLB with heap packets instead of mbufs and one thread
//! instead of many; the stages, tables, NIC and offload side are the same code
//! as in the running program. [`replay`] drives it with captures.
#![forbid(unsafe_code)]

mod arrivals;
mod clients;
mod explained;
mod neighbours;
mod run;
mod simulation;
mod trace;

pub use arrivals::{Arrival, ArrivalError, Arrivals, Ports};
pub use explain::{Change, Departure, Sent, Trace, Verdict};
pub use explained::{explain, story};
pub use run::{Replayed, Tell, replay};
pub use simulation::{Intake, Options, Simulation, SimulationError};
