//! Latency that a load balancer adds: round trips of UDP packets of the size of
//! a DNS query, without a load balancer, through an XDP program in the kernel
//! that does what the NIC does, and through HNLB.
mod pong;
mod run;
mod xdp;

pub use pong::{echo, ping};
pub use run::{RoundTrips, System, measure};
