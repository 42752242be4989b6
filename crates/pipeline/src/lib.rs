//! Packets in batches: parse, match, act.
//!
//! ```text
//! parse ─┬─ TCP, UDP ─► match ─┬─ mark, queue or table knows it ─────► act ─► out
//!        │                     └─ nobody knows it ─► miss: schedule ─► act ─► out
//!        ├─ later fragments ─► fragment: as the first ──────────────► act ─► out
//!        ├─ ARP, NDP ─► answered or learnt
//!        └─ ICMP ─► echoes answered, errors translated ─────────────────────► out
//! ```
//!
//! One [`Pipeline`] a worker; all of them share one [`Shared`](state::Shared).
//! Nothing here knows a driver, a thread or a clock: packets come as
//! [`PacketBuf`](packet::PacketBuf)s, time as milliseconds, and what goes out
//! is given to an [`Outbox`].
#![forbid(unsafe_code)]

mod act;
mod arp;
mod bucket;
mod context;
mod fragment;
mod general;
mod held;
mod hops;
mod icmp;
mod known;
mod lane;
mod matching;
mod miss;
mod ndp;
mod open;
mod outbox;
mod parse;
mod pipeline;
mod queue_lane;
mod reopening;
mod roads;
mod sampler;
mod stateless;
mod too_long;

pub use outbox::Outbox;
pub use pipeline::{BURST, Pipeline, Settings};
