//! The evaluation of the LASLB thesis (chapter 6), by discrete-event simulation: eight
//! processors that run a network function, and the very [`balance`] crate that spreads
//! packets over them.
//!
//! Service times are a model that is calibrated to the thesis' own figures, or recorded
//! from libndpi: the module `service`.

mod arrivals;
mod experiment;
mod network_function;
mod outcome;
mod row;
mod run;
mod service;
mod simulation;
mod single;
mod system;

pub use experiment::Experiment;
pub use nf::Hash;
pub use row::{LaslbGoal, LaslbRow, goals};
pub use run::{Options, run};
pub use service::{ApplicationTimes, POLL_NS, ServiceTimes};
pub use single::model_latencies;
