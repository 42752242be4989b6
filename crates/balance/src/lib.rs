//! Spreads buckets of flows over processors (LASLB, chapters 3 and 4): packets and a
//! clock in, decisions out.
//!
//! A [`Balancer`] owns the map from buckets to CPUs. A packet of a bucket on its way to
//! a CPU passes [`Balancer::to_cpu`], and comes back through [`Balancer::returned`] with
//! the time that it was away. The latter triggers an [`Algorithm`] now and then, whose
//! moves an [`Order`] carries out, so that no packet of a bucket overtakes another.
#![forbid(unsafe_code)]

mod algorithm;
mod balancer;
mod handover;
mod hash;
mod latency;
mod order;
mod settings;

pub use algorithm::{Algorithm, Dsw, Even, Kind, Marks, Move, Rsspp, SafeMark, Snapshot, Thesis};
pub use balancer::Balancer;
pub use handover::{Command, Event, Handover, HandoverOrder, HandoverSettings, HandoverTotals};
pub use hash::{symmetric, thesis};
pub use latency::{Alpha, LatencyEwma};
pub use order::{Order, Placement, Release};
pub use settings::{Settings, SettingsError};
