//! The emulated NIC: match tables, queues, capacity, faults.
//!
//! [`Nic`] plays the hardware between a wire and the host's receive queues. It
//! knows no ports: a loop hands it the frames that arrive
//! ([`Nic::receive_burst`]) and enqueues them where it says. The host programs
//! it through [`NicFlows`], as it would program a driver: whatever the card
//! whose profile is chosen doesn't take is refused, in the driver's words.
//! `docs/internals/nic.md` says what is modelled, and from which source.
#![forbid(unsafe_code)]

mod card;
mod config;
mod director;
mod edits;
mod encap;
mod fault;
mod flows;
mod frame_key;
mod key;
mod pending;
mod profile;
mod queues;
mod redirection;
mod rss;
mod rules;
mod stats;
mod steering;
mod table;
mod tables;

pub use card::{Disposition, DropReason, Nic};
pub use config::{NicConfig, NicError, Reta};
pub use edits::Edits;
pub use encap::Encap;
pub use fault::Fault;
pub use flows::NicFlows;
pub use profile::{Rates, rates};
pub use stats::{FaultHits, NicStats, Refused};
