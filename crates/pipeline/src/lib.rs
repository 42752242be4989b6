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
//! One [`Pipeline`] a worker; all of them share one [`Shared`]. Nothing here
//! knows a driver, a thread or a clock: packets come as
//! [`PacketBuf`](packet::PacketBuf)s, time as milliseconds, and what goes out
//! is given to an [`Outbox`].
#![forbid(unsafe_code)]

mod act;
mod ager;
mod arp;
mod bucket;
mod context;
mod counters;
mod drained;
pub mod encoding;
mod fragment;
mod general;
mod held;
mod hops;
mod icmp;
mod interface;
mod known;
mod lane;
mod matching;
mod miss;
mod ndp;
mod neighbour;
mod open;
mod parse;
mod pipeline;
mod port;
mod queue_lane;
mod resolver;
mod roads;
mod roster;
mod route;
mod sampler;
mod snapshot;
mod stateless;
mod too_long;
mod tunnels;

pub use ager::{Ager, AgerSettings};
pub use counters::{Counter, CounterKind, Counters};
pub use drained::{QueueEpochs, Ticket};
pub use interface::{Interface, Interfaces};
pub use neighbour::{Neighbour, NeighbourState, NeighbourTable};
pub use pipeline::{BURST, Pipeline, Settings};
pub use port::{Offload, Outbox, Source};
pub use resolver::{Resolver, ResolverSettings};
pub use roster::Roster;
pub use route::{Route, RouteTable};
pub use snapshot::{Admit, PortShared, Shared, Snapshot};
pub use tunnels::Tunnels;
