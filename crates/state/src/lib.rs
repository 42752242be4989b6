//! What the threads of one process share.
//!
//! [`Shared`] has the connection table, the neighbour table, the tables of what
//! marks and receive queues mean, how far each receive queue has been emptied,
//! and the [`Snapshot`] of the configuration. Workers read it for every packet;
//! the control side, the keeper and the offload side write to it.
#![forbid(unsafe_code)]

mod awaited;
mod backend_counts;
mod backend_totals;
mod claims;
mod counters;
mod gates;
mod loans;
mod marks;
mod metrics;
mod queue_epochs;
mod queues;
mod registry;
mod request;
mod snapshot;
mod status_codes;
mod tunnels;
mod worker_loads;

pub use awaited::Awaited;
pub use backend_counts::{ANSWER_BOUNDS_MS, AnswerTimes, BackendCounts, CLASSES, Carried, Ways};
pub use backend_totals::BackendTotals;
pub use claims::Claims;
pub use counters::{Counter, Counters};
pub use gates::Gates;
pub use loans::{Loan, Loans, Return};
pub use marks::{MarkTable, Marked};
pub use queue_epochs::{QueueEpochs, Ticket};
pub use queues::{QueueAction, QueueTable, SHARED_ACTIONS};
pub use registry::{CounterKind, CounterName, CounterSet, Metric};
pub use request::{Offload, Source};
pub use snapshot::{Answers, PortShared, Shared, Snapshot, SnapshotReader};
pub use status_codes::Codes;
pub use tunnels::Tunnels;
pub use worker_loads::WorkerLoads;
