//! The configuration file: TOML, its schema and its errors.
//!
//! [`Config::load`] gives either a configuration in which every reference,
//! bound and address was checked, or [`ConfigErrors`] with everything that is
//! wrong, each with line, column, key and what would be right.
#![forbid(unsafe_code)]

mod access_log;
mod announce;
mod answers;
mod api;
mod backend_tls;
mod checks;
mod config;
mod device;
mod error;
mod fleet;
mod headers;
mod health;
mod http;
mod nearest;
mod network;
mod offload;
mod reference;
mod service_tls;
mod services;
mod shape;
mod specs;
mod status;
mod tables;
mod text;
mod tree;
mod warnings;
mod workers;

pub use access_log::AccessLog;
pub use announce::{Announce, Bgp, BgpPeer, Vrrp};
pub use answers::Answers;
pub use api::Api;
pub use backend_tls::BackendTls;
pub use config::{Config, read};
pub use device::{Eal, HugePages, Nic, Port, check_device, is_pci};
pub use error::{ConfigError, ConfigErrors};
pub use fleet::Fleet;
pub use headers::{Headers, Sticky};
pub use health::{Health, Passive};
pub use http::{HttpRoute, Maintenance, Redirect};
pub use network::{Interface, Neighbour, Neighbours, Route};
pub use offload::Offload;
pub use service_tls::{ServiceTls, TlsCertificate, TlsVersion};
pub use services::{Backend, Pool, Quic, Service};
pub use status::Status;
pub use tables::{Conntrack, Fragments, Timeouts};
pub use text::{BadDuration, BadText, ServerIds, format_duration, parse_duration};
pub use tree::Key;
pub use warnings::{Warning, no_rewrite};
pub use workers::{Balance, Idle, MoveOrder, Workers};
