//! The evaluation of the HNLB paper (section V, figures 4 to 8), measured side
//! by side in one run, and what belongs beside it: latency, new connections,
//! connections that come and go.
//!
//! Two cores: one is traffic source and NIC at once (it writes every packet
//! into an mbuf, as DMA would, and gives it the queue and mark that the
//! emulated NIC has decided for its flow), the other is the load balancer,
//! which alone is measured. They meet in the rings behind net_ring ports.
#![forbid(unsafe_code)]

mod balancer;
mod budget;
mod calm;
mod churn;
mod configuration;
mod crowd;
mod distance;
mod error;
mod figure;
mod flows;
mod host;
mod install;
mod latency;
mod ledger;
mod limit;
mod measured;
mod newflow;
mod outbox;
mod part;
mod parts;
mod peak;
mod plan;
mod presence;
mod run;
mod slb_paper;
mod source;
mod stage;
mod system;
mod testbed;
mod traffic;
mod whole;
mod windows;
mod world;

pub use budget::{Grant, Wish, fixed, grants, wishes};
pub use error::PaperError;
pub use figure::Figure;
pub use part::Part;
pub use plan::{Options, Progress};
pub use system::{System, UnknownSystem};
pub use testbed::Testbed;
pub use traffic::Traffic;
