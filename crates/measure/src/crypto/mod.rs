//! `hnlb bench crypto`: figure 4 of the LB-NIC paper, and what its "flipped
//! model" gives (section 3.3): asymmetric work, which is the handshakes, on other
//! cores than symmetric work, which is the records.
//!
//! - `handshake`: the server's side of whole TLS 1.3 handshakes in memory, in
//!   processor time; the client's side is not counted.
//! - `symmetric`: TLS 1.3 records sealed in bursts of 32 by each engine.
//! - `split`: records of established connections at a fixed rate on one core,
//!   while handshakes arrive at the same core, or at another.
//! - `endpoint`: requests over the TCP that terminates TLS, and over the kernel's.
mod certificate;
mod endpoint;
mod engine;
mod handshake;
mod options;
mod page;
mod records;
mod row;
mod run;
mod split;
mod symmetric;

pub use options::{CryptoBenchError, Options};
pub use page::{crypto_text, write_crypto};
pub use row::{Row, What};
pub use run::{Outcome, run};
