//! Which VIPs routers are told of, and how they are told.
//!
//! [`Announcer`] decides from the health of each VIP; [`Routes`] has a route of the
//! kernel's for each VIP that is announced, in a table of its own, over a device that
//! ends with the process; [`bird`] and [`keepalived`] are the configurations of the
//! programs that speak to routers and follow those routes and that device.
#![forbid(unsafe_code)]

mod announcer;
mod bird;
mod keepalived;
mod netlink;
mod routes;

pub use announcer::{Announcer, Standing, Verdict};
pub use bird::{ROUTE_PROTOCOL, bird};
pub use keepalived::keepalived;
pub use routes::{Changes, Routes};

/// Why there is nothing to render.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{file} has no [announce.{section}]: {what} has nothing to announce by")]
pub struct RenderError {
    /// The configuration file.
    pub file: String,
    /// The section that is missing.
    pub section: &'static str,
    /// The program that the configuration would be for.
    pub what: &'static str,
}
