//! Packets in batches: read what the NIC reported, look up, decide, serve.
//!
//! The fast path takes packets that are only rewritten and sent; all others take the
//! slow path, which parses, matches, decides and acts packet by packet and gives the
//! same bytes for every packet that both paths can serve.
//!
//! # Fast path
//! ```text
//! classify ─┬─ the mark names a connection, or the queue a backend ─┬► serve ─► out
//!           └─ look up ─┬─ the table has the connection ────────────┤
//!                       ├─ the packet may open one ─► new connection┘
//!                       └─ anything else ─► slow path
//! ```
//!
//! # Slow path
//! ```text
//! parse ─┬─ TCP, UDP ─► match ─┬─ mark, queue or table knows it ─► act ─► out
//!        │                     ├─ no connection ─► miss: schedule ─► act ─► out
//!        │                     └─ a service of requests ─► the L7 agent ──► out
//!        ├─ later fragments ─► fragment: as the first ───────────► act ─► out
//!        ├─ ARP, neighbour discovery ─► answered or learnt
//!        └─ ICMP ─► echoes answered, errors translated ────────────────► out
//! ```
//!
//! Each worker has one [`Pipeline`]; all pipelines share one
//! [`Shared`](state::Shared). The crate knows no driver, thread or clock: packets
//! come as [`PacketBuf`](packet::PacketBuf)s, time as milliseconds, and outgoing
//! packets go to an [`Outbox`].
#![forbid(unsafe_code)]

mod answer;
mod context;
mod exhausted_pools;
mod fast;
mod next_hop_cache;
mod offload_requests;
mod outbox;
mod pipeline;
mod refusals;
mod sample;
mod sampler;
mod scheduling;
mod server_hop_cache;
mod slow;
mod source;
mod token_bucket;
mod verdict;

pub use outbox::Outbox;
pub use pipeline::{BURST, Pipeline, Settings};
pub use sample::Sample;
pub use slow::asked::Asked;
pub use slow::waiting::WAITING;
