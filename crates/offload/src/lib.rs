//! Encodings, rule life cycle, quiescing: the connection table in the NIC.
#![forbid(unsafe_code)]

mod backoff;
mod capacity;
mod choose;
mod config;
mod connections;
mod count;
mod doomed;
mod encoding;
mod engine;
mod entry;
mod fixed_rules;
mod flow_type;
mod install;
mod marks;
mod offloader;
mod port_rewrite;
mod port_rules;
mod probe;
mod probe_rewrite;
mod queue_action;
mod queues;
mod reroute;
mod rewrite;
mod second_best;
mod settling;
mod shared;
mod stateless_rules;
mod stats;
mod steering_rule;
mod tunnel;

pub use choose::{Explained, Place};
pub use config::{OffloadConfig, PortConfig};
pub use connections::{Connections, Path, PortTables, Way};
pub use encoding::{Encoding, UnknownEncoding, Wanted};
pub use flow_type::FlowType;
pub use offloader::Offloader;
pub use probe::{Card, Probe, probe, probe_card};
pub use rewrite::{RewriteCard, Style};
pub use second_best::NotRewritten;
pub use stateless_rules::{Held, StatelessRules};
pub use stats::{Done, Level, OffloadStats, PortStats, QueueUse, Refused};
pub use tunnel::TunnelType;
