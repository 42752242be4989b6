//! Safe wrappers over DPDK: EAL, mempool, mbuf, port, ring, rte_flow.
//!
//! Ownership carries the rules that DPDK states in prose:
//! - an [`Mbuf`] is owned once and goes back to its pool when dropped;
//! - a [`Batch`] owns what it holds; after a send the sent prefix is forgotten
//!   and the unsent tail stays, in order;
//! - a queue of a port and an end of a single-producer ring exist once, so two
//!   threads can't poll the same one;
//! - while anything of DPDK is alive, EAL is not cleaned up.

pub mod batch;
pub mod crypto;
pub mod eal;
mod errno;
pub mod flow;
pub mod hash;
pub mod hugepages;
mod live;
pub mod log;
pub mod mbuf;
pub mod mempool;
pub mod net_ring;
pub mod port;
pub mod ring;
pub mod telemetry;
pub mod thread;

pub use batch::{BURST, Batch};
pub use eal::{Eal, EalConfig, EalError, cycles, cycles_per_second};
pub use hugepages::{HugePages, Memory};
pub use live::{NotRunning, StillInUse};
pub use log::LogLevel;
pub use mbuf::Mbuf;
pub use mempool::{Mempool, MempoolError};
pub use net_ring::RingNic;
pub use port::{
    Capabilities, Link, Port, PortConfig, PortError, PortFlows, PortStats, Redirection, Rss,
    RxQueue, TxQueue,
};
pub use ring::{Consumer, Producer, Ring, RingError};
pub use telemetry::Telemetry;
pub use thread::{ThreadError, ThreadGuard, pin_to_core, register_thread};
