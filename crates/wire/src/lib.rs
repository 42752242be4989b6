//! Packet bytes: checked views, flow keys, rewrite plans, checksums.
//!
//! Nothing here allocates, panics on any input or knows a driver.
#![forbid(unsafe_code)]

pub mod checksum;
pub mod flow;
pub mod headers;
pub mod mac;
pub mod rewrite;

pub use flow::{FlowKey, FlowV4, FlowV6, Transport};
pub use headers::{Fragment, Headers, Malformed, Net, TcpFlags};
pub use mac::Mac;
pub use rewrite::{Rewrite, Side};
