//! Packets in batches: parse, match, act.
//!
//! One [`Pipeline`] a worker; all of them share one [`Shared`]. Nothing here
//! knows a driver, a thread or a clock: packets come as
//! [`PacketBuf`](packet::PacketBuf)s, time as milliseconds, and what goes out
//! is given to an [`Outbox`].
#![forbid(unsafe_code)]

mod bucket;
mod counters;
mod drained;
pub mod encoding;
mod interface;
mod neighbour;
mod pipeline;
mod port;
mod route;
mod snapshot;

pub use counters::{Counter, CounterKind, Counters};
pub use drained::{QueueEpochs, Ticket};
pub use interface::{Interface, InterfaceId, Interfaces};
pub use neighbour::{Neighbour, NeighbourState, NeighbourTable};
pub use pipeline::{BURST, Pipeline, Settings};
pub use port::{Offload, Outbox, PortId, Source};
pub use route::{Route, RouteTable};
pub use snapshot::{Admit, PortShared, Shared, Snapshot};
