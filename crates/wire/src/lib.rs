//! Packet bytes: checked views, flow keys, rewrite plans, checksums.
//!
//! Nothing here allocates, panics on any input or knows a driver.
#![forbid(unsafe_code)]

mod apply;
pub mod arp;
mod bytes;
mod check;
pub mod checksum;
mod echo;
pub mod encap;
pub mod ethernet;
pub mod fast_header;
pub mod flow_hash;
pub mod flow_key;
pub mod headers;
pub mod icmp;
mod icmp_error;
pub mod icmpv6;
mod inner;
pub mod ipv4;
pub mod ipv6;
pub mod mac;
pub mod malformed;
pub mod ndp;
pub mod numbers;
mod parse;
pub mod pieces;
pub mod quoted;
pub mod reset;
pub mod rewrite;
pub mod tcp;
pub mod toeplitz;
pub mod ttl;
pub mod udp;
mod view;
pub mod vlan;

pub use crate::flow_key::{FlowKey, FlowV4, FlowV6};
pub use encap::{Encap, Tunnel};
pub use fast_header::{FastHeader, FastRewrite};
pub use flow::Transport;
pub use headers::{Fragment, Headers, Net, TcpFlags};
pub use mac::Mac;
pub use malformed::Malformed;
pub use rewrite::{Rewrite, Rewrite4, Rewrite6, Side};
pub use toeplitz::Toeplitz;
pub use ttl::decrement_ttl;
