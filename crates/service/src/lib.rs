//! VIPs, backends, schedulers, Maglev and the action: pure logic.
//!
//! A [`ServiceTable`] is compiled once from [`ServiceSpec`]s and never changes;
//! what a worker changes while it schedules is in its own
//! [`WorkerScheduleState`], and what all workers share is in [`BackendLoads`].
//! Both go by ids that a [`Registry`] lends, and so outlive a table: the next one
//! gives what it has in common with the last the same ids.
#![forbid(unsafe_code)]

mod binding;
mod blocks;
mod classes;
mod forwarding;
mod hex;
mod index;
mod loads;
mod maglev;
mod opening;
mod pool;
mod prime;
mod quic_lb;
mod registry;
mod reply;
mod routing;
mod scheduler;
mod service;
mod shares;
mod siphash;
mod slots;
mod spec;
mod sticky;
mod succession;
mod table;
mod table_error;
mod timeouts;

pub use binding::Binding;
pub use classes::{Classes, Entry, Moved, Precision, Share};
pub use forwarding::{Delivery, Forwarding};
pub use hex::{BadHex, Key128};
pub use loads::BackendLoads;
pub use maglev::{MAGLEV_MAX, MAGLEV_PER_BACKEND, MaglevSizeError, check_maglev_size};
pub use opening::{FirstAnswer, Opening};
pub use pool::{Candidates, Pool};
pub use quic_lb::{QuicDecoder, QuicIds, ServerId};
pub use registry::Registry;
pub use reply::{BadPlace, Reply};
pub use routing::{
    Directed, Goal, GroupId, HeaderChanges, HelloView, Reads, RequestView, RouteSpec, Routed,
    RoutesSpec,
};
pub use scheduler::WorkerScheduleState;
pub use service::{Backend, Health, Service};
pub use spec::{
    BackendSpec, Failover, MAGLEV_DEFAULT, ModeSpec, PoolSpec, ServiceSpec, TunnelSpec,
};
pub use sticky::StickySpec;
pub use table::{ServiceTable, SteerError};
pub use table_error::TableError;
pub use timeouts::{DOUBTFUL_MS, ServiceTimeouts, Timeouts};
