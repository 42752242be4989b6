//! `hnlb bench table`: the connection table against rte_hash, in one run.
//!
//! What is compared: `entries` is what a table was made for, connections here
//! and keys there. HNLB's table holds both directions of a connection, so it
//! has two keys for every one of rte_hash, and both are looked up; each table
//! is filled to the same part (`load`) of its entries. For a comparison at the
//! same number of keys, HNLB's is measured with half the connections, too.
//!
//! Numbers of connections are drawn at random and turned into keys outside of
//! the measured time, a block of 64 at a time, so that the keys lie in the
//! first-level cache and nothing else is in it on their account.

mod goals;
mod hnlb;
mod keys;
mod measure;
mod options;
mod population;
mod row;
mod rte;
mod run;
mod show;
mod subject;

pub use options::{BenchError, Options, SizeError, parse_size};
pub use row::{Op, Row, TableName};
pub use run::{Outcome, run};
