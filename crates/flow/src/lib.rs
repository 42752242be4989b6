//! Identifiers and words that every crate shares: each defined once.
//!
//! A word of the configuration (a mode, an encoding, a scheduler and so on) is
//! one enum here, and its text is written once: the configuration file, its
//! JSON Schema and reference page, command-line flags, logs and reports all use
//! it. The crate knows nothing of DPDK, of packets or of the layout of the
//! configuration file, so that every other crate can depend on it.
#![forbid(unsafe_code)]

mod account;
mod admission;
mod affinity;
mod all_down;
mod capture_side;
mod card;
mod check;
mod direction;
mod encoding;
mod ids;
mod mode;
mod on_remove;
mod protocol;
mod proxy_protocol;
mod rebalance;
mod refuse;
mod same_site;
mod scheduler;
mod stateless;
mod transport;
mod word;

pub use account::Account;
pub use admission::AdmissionPolicy;
pub use affinity::Affinity;
pub use all_down::AllDown;
pub use capture_side::CaptureSide;
pub use card::{CardProfile, Entries};
pub use check::Check;
pub use direction::Direction;
pub use encoding::{Encoding, EncodingChoice};
pub use ids::{BackendId, HopId, InterfaceId, PortId, ServiceId};
pub use mode::Mode;
pub use on_remove::OnRemove;
pub use protocol::Protocol;
pub use proxy_protocol::ProxyProtocol;
pub use rebalance::Rebalance;
pub use refuse::Refuse;
pub use same_site::SameSite;
pub use scheduler::Scheduler;
pub use stateless::StatelessKey;
pub use transport::Transport;
pub use word::{UnknownWord, alternatives};
