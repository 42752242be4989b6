//! Spreads the buckets of the ports' redirection tables over the workers by load.
mod board;
mod census;
mod drivers;
mod loads;
mod mover;
mod plan;
mod table;
mod thread;

pub(crate) use board::BalanceBoard;
pub(crate) use census::Census;
pub use mover::{MovedPort, Mover, RedirectionTable};
pub(crate) use plan::Balancing;
pub(crate) use thread::{BalanceThread, WorkerLoop};
