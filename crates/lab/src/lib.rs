//! The lab: network namespaces with clients, backends and HNLB between them.
//!
//! One broadcast domain, two subnets (one-arm): two clients, four backends
//! with real servers (nginx, nsd), one namespace for HNLB and one for the
//! switch that joins them. Everything a lab starts belongs to it and goes
//! with it: processes, namespaces, files. See `docs/internals/lab.md`.
#![forbid(unsafe_code)]

/// In place of the standard macro, which panics when the reader of a pipe has gone, as
/// in `hnlb lab up | head -1`: what the lab does is done all the same.
macro_rules! print {
    ($($text:tt)*) => { $crate::output::print(format_args!($($text)*)) };
}

/// [`print!`] with an end of line.
macro_rules! println {
    ($($text:tt)*) => { $crate::output::print(format_args!("{}\n", format_args!($($text)*))) };
}

pub mod answers;
mod balancer;
mod column;
mod command;
pub mod compare;
mod config;
mod crash;
pub mod demo;
pub mod dns;
mod error;
mod exec;
mod faulty;
pub mod flood;
mod flower;
mod health;
mod host;
mod http;
pub mod http_bench;
mod https;
pub mod https_bench;
mod idle;
mod kernel;
mod lab;
pub mod latency;
pub mod load;
mod netns;
pub mod nf;
mod output;
pub mod pair;
mod proc;
mod progress;
pub mod reload;
mod servers;
mod service_text;
mod state;
pub mod status;
mod stop;
mod threads;
pub mod topology;
mod tunnels;
pub mod vm_check;
mod xdp;

pub use balancer::Balancer;
pub use column::Column;
pub use command::LabCommand;
pub use config::{Device, LabRun};
pub use error::LabError;
pub use exec::Output;
pub use host::{is_root, unavailable};
pub use lab::{Lab, LabOptions, LabStatus};
pub use stop::Stop;
pub use tunnels::Opener;
