//! The control API of a running load balancer: HTTP and JSON over a Unix socket, an
//! OpenAPI document, metrics, and the client that the commands use.
//!
//! [`serve`] runs in a process of its own. It knows the load balancer only by a link,
//! over which it asks the control thread; when it is killed or hangs, packets keep
//! flowing, and another process takes its place.
#![forbid(unsafe_code)]

mod client;
#[cfg(test)]
mod contract;
mod endpoint;
mod engine;
mod error;
mod events;
mod extract;
mod metrics;
mod open_metrics;
mod openapi;
mod refused;
mod role;
mod routes;
mod save;
mod server;
mod socket;
mod socket_file;

pub use client::Client;
pub use error::{AskError, SocketError};
pub use events::{Event, EventKind};
pub use routes::{BackendBody, ReloadBody, WeightBody};
pub use save::Saved;
pub use server::{Settings, serve};
pub use socket::Socket;
