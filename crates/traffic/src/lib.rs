//! Traffic generators: which flow sends next, how large the packet is and
//! when it comes.
//!
//! All generators are endless iterators that depend on nothing but their
//! parameters and a seed: the same seed gives the same traffic on every
//! machine. Flows are plain indices.
//!
//! | generator | what it yields |
//! |---|---|
//! | [`Uniform`] | flow indices, all equally likely |
//! | [`Zipf`] | flow indices, index k with weight 1 / (k + 1)^alpha |
//! | [`Sizes`] | packet sizes of a range and a mean |
//! | [`Churn`] | timed packets of connections that come and go |
//! | [`TrafficSet`] | timed and sized packets of the LASLB thesis' three sets, and of a bursty one |
#![forbid(unsafe_code)]

mod application;
mod bursts;
mod churn;
mod error;
mod rng;
mod set;
mod sizes;
mod uniform;
mod zipf;

pub use application::{Application, Message};
pub use churn::{Churn, ChurnPacket, Class, Phase};
pub use error::TrafficError;
pub use rng::Rng;
pub use set::{Load, Packet, Set, TrafficSet};
pub use sizes::Sizes;
pub use uniform::Uniform;
pub use zipf::Zipf;
