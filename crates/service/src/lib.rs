//! VIPs, backends, schedulers, Maglev and the action: pure logic.
#![forbid(unsafe_code)]

mod binding;

pub use binding::{BackendId, Binding, Direction, HopId, ServiceId};
