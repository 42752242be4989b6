//! Encodings, rule life cycle, quiescing: the connection table in the NIC.
#![forbid(unsafe_code)]

mod backoff;
mod config;
mod connection;
mod encode;
mod environment;
mod flow_type;
mod groups;
mod offloader;
mod port;
mod probe;
mod rules;
mod shared;
mod spread;
mod stateless;
mod stats;
mod trial_rules;

pub use config::{OffloadConfig, PortConfig, ReceiveQueues};
pub use encode::NotRewritten;
pub use encode::rewrite::{RewriteCapabilities, Style};
pub use encode::tunnel::TunnelType;
pub use environment::{Connections, Environment, NextHop, NextHops, Path, PortTables, Ports};
pub use flow_type::FlowType;
pub use offloader::Offloader;
pub use offloader::admission::{Explained, OffloadCause, Place};
pub use probe::{Probe, ProbeInput, probe, probe_card};
pub use rules::{Rules, RulesReport};
pub use stateless::{Held, PortState, StatelessRules, StatelessStats};
pub use stats::{Done, Level, OffloadStats, PortStats, QueueUse, Refused};
pub use trial_rules::TrialRules;
