//! The connection table, TCP state and ageing.
//!
//! One table is shared by all workers: both directions of a connection come in
//! on different cores. Lookups take no lock and write nothing; insertions and
//! removals lock single buckets (LB-NIC section 3.2).
//!
//! Each family has its records, one per connection (64 bytes for IPv4, 128 for
//! IPv6), and one cuckoo index with the keys of both directions: buckets of 4
//! slots in a cache line, a slot being two atomic words. They hold an IPv4
//! 5-tuple whole, so a lookup reads one bucket, or two, and no record; of an IPv6
//! one they hold a digest, which the record confirms. Moves shift slots, never
//! records, so a connection's id is its record's number and lasts as long as the
//! connection. Removed records are reused when all registered workers have
//! passed a quiescent point ([`Reader`]).
//!
//! With the 40 bytes of index per place (at most 4 of 5 slots in use), a
//! connection takes 116 bytes (IPv4) or 187 (IPv6) at 90 % load.
#![deny(unsafe_code)]

#[forbid(unsafe_code)]
mod bucket;
#[forbid(unsafe_code)]
mod burst;
#[forbid(unsafe_code)]
mod changes;
#[forbid(unsafe_code)]
mod config;
#[forbid(unsafe_code)]
mod family;
#[forbid(unsafe_code)]
mod fast;
#[cfg(all(test, not(loom)))]
#[forbid(unsafe_code)]
mod fill;
#[forbid(unsafe_code)]
mod free;
#[forbid(unsafe_code)]
mod hash;
#[forbid(unsafe_code)]
mod id;
#[forbid(unsafe_code)]
mod index;
#[forbid(unsafe_code)]
mod insert;
#[forbid(unsafe_code)]
mod insert_api;
#[cfg(all(test, loom))]
#[forbid(unsafe_code)]
mod interleavings;
#[forbid(unsafe_code)]
mod key;
#[forbid(unsafe_code)]
mod life;
#[forbid(unsafe_code)]
mod locks;
mod memory;
#[forbid(unsafe_code)]
mod moves;
#[forbid(unsafe_code)]
mod offload;
#[forbid(unsafe_code)]
mod path;
#[forbid(unsafe_code)]
mod prefetched_insert;
#[forbid(unsafe_code)]
mod readers;
#[forbid(unsafe_code)]
mod record;
#[forbid(unsafe_code)]
mod seed;
#[forbid(unsafe_code)]
mod segment;
#[forbid(unsafe_code)]
mod shares;
#[forbid(unsafe_code)]
mod stack;
#[forbid(unsafe_code)]
mod state;
#[cfg(all(test, not(loom)))]
#[forbid(unsafe_code)]
mod stress;
#[forbid(unsafe_code)]
mod sweep;
#[forbid(unsafe_code)]
mod sync;
#[forbid(unsafe_code)]
mod table;
#[forbid(unsafe_code)]
mod tidy;
mod time;
#[forbid(unsafe_code)]
mod view;
mod walk;

pub use burst::LookupKey;
pub use config::{TableConfig, TableError};
pub use family::FamilyStats;
pub use fast::{FastKey, Served};
pub use id::{ConnId, Hit};
pub use insert_api::InsertError;
pub use key::Key;
pub use offload::OffloadState;
pub use prefetched_insert::PreparedInsert;
pub use readers::{MAX_READERS, Reader, ReaderError};
pub use segment::Segment;
pub use shares::{EmbryonicLimits, Limit};
pub use state::{ConnState, Event};
pub use sweep::Expiry;
pub use table::{ConnTable, IterPlace, TableStats};
pub use time::TICK_MS;
pub use view::{Action, ConnView};
