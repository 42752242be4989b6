//! What becomes of one packet, and why.
//!
//! [`Sandbox`] sends a packet through the real data path over a copy of the running
//! load balancer's state, so that neither a worker nor a table notices. [`Ground`]
//! notes what is known of a packet's connection before the packet is served, and
//! [`Ground::story`] says afterwards which service and backend it had, and why. A
//! replay tells the same story of its own packets.
#![forbid(unsafe_code)]

mod fields;
mod ground;
mod outbox;
mod question;
mod reason;
mod sandbox;
mod trace;

pub use ground::Ground;
pub use outbox::{Collected, Sent};
pub use question::{QuestionError, arrival};
pub use sandbox::{Sandbox, SandboxError};
pub use trace::{Change, Departure, Trace, Verdict, raised};
