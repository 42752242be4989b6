//! Services that terminate TLS: TCP end points towards clients and backends, records in
//! between, and HTTP requests that are routed one by one.
//!
//! ```text
//! client ─ TCP ─ records ─ request ─► route ─► header anew ─ TCP ─ backend
//!            │                  (World)                   │
//!            └── handshake ─► Pool        response ◄──────┘
//! ```
//!
//! A client's requests come one after the other in HTTP/1.1, or beside each other in the
//! streams of HTTP/2; each is an errand to a backend, which speaks HTTP/1.1. Of a service
//! in front of TCP the bytes in the records go to one backend as they are.
//!
//! Packets and time go in, packets come out; [`World`] is everything else.
#![forbid(unsafe_code)]

mod common;
mod connection;
mod endpoint;
mod errand;
mod event;
mod exchange;
mod head;
mod http1;
mod http2;
mod identity;
mod link;
mod outline;
mod paths;
mod pipe;
mod secured;
mod sender;
mod settings;
mod sockets;
mod stack;
mod terminator;
mod timer;
mod upstream;
mod window;
mod world;

pub use endpoint::{Endpoint, Stage};
pub use event::Event;
pub use settings::Settings;
pub use stack::{Buffers, Stack};
pub use terminator::{Segment, Terminator, TooLong, Usage};
pub use world::{Carries, Route, Terms, Wish, World};
