//! Worker loops, the glue of pipeline and ports, utilization.
//!
//! [`Engine`] is the load balancer as threads and devices; everything it does
//! to a packet is in the `pipeline` crate.
#![forbid(unsafe_code)]

mod admission_report;
mod clock;
pub mod control;
mod default_queue;
mod device;
mod encoding;
mod engine;
mod error;
mod explain;
mod idle;
mod keeper;
mod memory;
mod nic_thread;
mod no_flows;
mod outbox;
mod parts;
mod report;
mod running;
mod stateless_report;
pub mod status;
pub mod status_socket;
mod threads;
pub mod utilization;
mod worker;

pub use engine::Engine;
pub use error::EngineError;
