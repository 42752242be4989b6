//! The control API of a running load balancer: HTTP and JSON over a Unix socket and
//! over TCP with TLS, an OpenAPI document, metrics, a web page, and the client that the
//! commands use.
//!
//! [`serve`] runs in a process of its own. It knows the load balancer only by a link,
//! over which it asks the control thread; when it is killed or hangs, packets keep
//! flowing, and another process takes its place.
#![forbid(unsafe_code)]

mod bodies;
mod client;
mod credentials;
mod endpoint;
mod engine;
mod error;
mod events;
mod extract;
mod gate;
mod handlers;
mod metrics;
mod nic_metrics;
mod open_metrics;
mod openapi;
mod origin;
mod page;
mod patience;
mod refused;
mod remote;
mod request_metrics;
mod role;
mod routes;
mod sampler;
mod save;
mod server;
mod service_metrics;
mod socket;
mod socket_file;
#[cfg(test)]
mod tests;
mod tokens;
mod traffic_metrics;
mod worker_metrics;

pub use bodies::{BackendBody, ReloadBody, WeightBody};
pub use client::Client;
pub use credentials::{CredentialsError, check};
pub use error::{AskError, SocketError};
pub use events::{Event, EventKind};
pub use save::Saved;
pub use server::{Settings, serve};
pub use socket::Socket;
