//! What a mark or a queue number means: written by the offload side, read by
//! the workers for every matched packet.

mod marks;
mod queues;

pub use marks::{MarkTable, Marked};
pub use queues::{QueueAction, QueueTable, SHARED_ACTIONS};
