//! The middlebox server with its devices, and the loop of a network function.
//!
//! [`Config`] is the file, [`Server`] the running server around [`nf::Middlebox`], and
//! [`Function`] the other end of an attachment: a process that gets every frame of some
//! buckets and returns it.
#![forbid(unsafe_code)]

mod attachment;
mod config;
mod function;
mod inside;
mod outbox;
mod plug;
mod report;
mod server;
mod status;
mod work;

pub use attachment::{Attachment, BadAttachment};
pub use config::{Config, ConfigError};
pub use function::{Function, FunctionError, FunctionReport};
pub use report::{FunctionReportRow, PortReport, Report};
pub use server::{Server, ServerError};
pub use status::{StatusError, answer, ask};
pub use work::{Inspect, Work};
