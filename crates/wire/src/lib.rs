//! Packet bytes: checked views, flow keys, rewrite plans, checksums.
//!
//! Nothing here allocates, panics on any input or knows a driver.
#![forbid(unsafe_code)]

mod apply;
mod bytes;
pub mod checksum;
pub mod flow;
pub mod headers;
pub mod mac;
pub mod malformed;
pub mod numbers;
mod parse;
pub mod rewrite;
pub mod ttl;

pub use flow::{FlowKey, FlowV4, FlowV6, Transport};
pub use headers::{Fragment, Headers, Net, TcpFlags};
pub use mac::Mac;
pub use malformed::Malformed;
pub use rewrite::{Rewrite, Rewrite4, Rewrite6, Side};
pub use ttl::decrement_ttl;
