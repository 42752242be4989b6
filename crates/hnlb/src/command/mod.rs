//! One file per command.

pub(crate) mod announce;
pub(crate) mod api;
pub(crate) mod backend;
pub(crate) mod bench;
mod bench_admission;
mod bench_crypto;
mod bench_http;
mod bench_laslb;
mod bench_xdp;
mod bench_xenoflow;
pub(crate) mod capture;
pub(crate) mod check;
pub(crate) mod config;
pub(crate) mod connections;
pub(crate) mod doctor;
pub(crate) mod explain;
pub(crate) mod generate;
pub(crate) mod lab;
pub(crate) mod nf;
pub(crate) mod nic;
pub(crate) mod reload;
pub(crate) mod replay;
pub(crate) mod run;
pub(crate) mod setup;
pub(crate) mod status;
pub(crate) mod top;
pub(crate) mod why_not_offloaded;
