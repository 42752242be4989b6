//! The connection table, TCP state and ageing.

mod id;

pub use id::{ConnId, Hit};
