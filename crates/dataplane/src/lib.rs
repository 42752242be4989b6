//! The load balancer as threads and devices.
//!
//! [`LoadBalancer`] opens the ports and starts the threads: workers, emulated
//! NICs, and five for slow work. `keeper` ages connections and resolves next
//! hops, `offload` makes rules and is the only one that a driver may keep
//! waiting, `control` answers requests over links, `health` probes backends,
//! and `kernel` carries packets to the kernel and from it. What is
//! done to a packet is in the crate `pipeline`, slow work in `keeper` and `offload`.
#![forbid(unsafe_code)]

mod access_log;
mod admission_report;
mod announcing;
mod autoscaling;
pub mod balancing;
mod build;
mod captures;
mod catcher;
mod causes;
mod checks;
mod clock;
mod connections;
mod control;
mod control_thread;
mod counted_flows;
mod default_queue;
mod device;
mod device_lock;
mod encoding;
mod error;
mod exception_thread;

mod handover;
mod idle;
mod keeper_thread;
mod kernel_interface;
pub mod link;
mod load_balancer;
mod memory;
mod nic_thread;
mod no_flows;
mod offload_thread;
mod outbox;
mod packets;
mod passive;
mod patience;
pub mod poll_schedule;
mod polling;
mod port_view;
mod report;
mod rings;
mod services_report;
mod stateless_report;
mod takeover;
mod tap;
mod telemetry;
mod terminator_thread;
mod threads;
mod tls_terms;
mod trial_card;
pub mod utilization;
mod worker;
mod xdp_device;

pub use error::StartError;
pub use load_balancer::LoadBalancer;
pub use trial_card::TrialCard;
