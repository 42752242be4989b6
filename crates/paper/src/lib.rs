//! The evaluation of the HNLB paper (section V, figures 4 to 8), measured side
//! by side in one run.
//!
//! Two cores: one is traffic source and NIC at once (it writes every packet
//! into an mbuf, as DMA would, and gives it the queue and mark that the
//! emulated NIC has decided for its flow), the other is the load balancer,
//! which alone is measured. They meet in the rings behind net_ring ports.
#![forbid(unsafe_code)]

mod balancer;
mod error;
mod figure;
mod flows;
mod host;
mod limit;
mod linearity;
mod outbox;
mod plan;
mod row;
mod run;
mod slb_paper;
mod source;
mod system;
mod testbed;
mod traffic;
mod windows;
mod world;

pub use error::PaperError;
pub use figure::Figure;
pub use linearity::{Linearity, linearity};
pub use plan::{Options, Progress};
pub use row::Row;
pub use system::{System, UnknownSystem};
pub use testbed::Testbed;
pub use traffic::Traffic;
