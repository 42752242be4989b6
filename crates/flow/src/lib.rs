//! Identifiers and words that every crate shares: each defined once.
//!
//! The crate knows nothing of DPDK, of packets or of the configuration file's
//! layout, so that every other crate can depend on it.
#![forbid(unsafe_code)]

mod direction;
mod ids;

pub use direction::Direction;
pub use ids::{BackendId, HopId, InterfaceId, PortId, ServiceId};
