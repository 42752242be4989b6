//! The one way to change what the load balancer does.
//!
//! A configuration says what is wanted: a [`Plan`], plain data. [`diff`] compares
//! it with the plan that is in force and gives the [`Step`]s from one to the
//! other; [`Control::apply`] takes them: it compiles the next snapshot and
//! publishes it to all workers at once, or refuses and changes nothing. The
//! start is a change from [`Plan::nothing`]; a reload, a drain and a restore go
//! the same way.
//!
//! Nothing here knows a thread, a clock, a device or a socket: time is an
//! argument, and so is the state that threads share.
#![forbid(unsafe_code)]

mod capture;
mod change;
mod compile;
mod control;
mod diff;
mod drained;
mod fixed;
mod frame;
mod leaving;
mod ordered;
mod plan;
mod question;
mod refusal;
mod request;
mod state_file;
mod step;

pub use capture::{CaptureFilter, CaptureOrder};
pub use change::{BackendChange, Change};
pub use compile::{CompileError, PortFact, answers};
pub use control::{Applied, Control, Start};
pub use diff::diff;
pub use drained::Drained;
pub use fixed::Fixed;
pub use frame::{Answered, Asked, LONGEST_REQUEST};
pub use plan::{InterfaceKey, Plan};
pub use question::{FlowProbe, FrameProbe, Probe, Question};
pub use refusal::{Problem, Refusal};
pub use request::{Changed, Filter, InForce, Reloaded, Request, Steered, Top};
pub use state_file::{StateFile, StateFileError};
pub use step::{BackendKey, Order, Step};
