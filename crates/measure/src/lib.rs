//! Every measurement of HNLB, and the reports made of them.
//!
//! [`Testbed::part`] runs the evaluation of the HNLB paper (section V, figures
//! 4 to 8), all systems side by side in one run, with latency, new connections
//! and churn beside it. [`table`] compares the connection table with DPDK's
//! `rte_hash`, [`admission`] compares the policies that give out hardware
//! entries, [`laslb`] simulates the evaluation of the LASLB thesis, [`xenoflow`] models
//! stateless services in a card, [`Worker`] is set beside the kernel's XDP program, and [`crypto`] measures the work of TLS. [`report`]
//! turns rows into medians, plots, goals and one HTML page.
//!
//! The evaluation runs on two cores. One is traffic source and NIC at once: it
//! writes every packet into an mbuf, as DMA would, with the queue and mark that
//! the emulated NIC has decided for its flow. The other runs the load balancer
//! and is the only one that is measured. They meet in the rings behind
//! `net_ring` ports.
#![forbid(unsafe_code)]

pub mod admission;
pub mod crypto;
mod error;
mod evaluation;
pub mod laslb;
mod machine;
pub mod report;
mod statistics;
mod systems;
pub mod table;
mod testbed;
mod worker;
pub mod xenoflow;

pub use error::MeasureError;
pub use evaluation::figure::Figure;
pub use evaluation::options::{Options, Progress};
pub use evaluation::part::Part;
pub use evaluation::repetitions::{Effort, Share, shares};
pub use systems::system::{System, UnknownSystem};
pub use testbed::ports::Testbed;
pub use testbed::sequence::Traffic;
pub use worker::Worker;
