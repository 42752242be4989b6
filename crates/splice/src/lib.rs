//! The L7 forwarding agent (LB-NIC, sections 2.2.2 and 3.1): routes HTTP requests
//! without a TCP stack. The agent answers a client's SYN itself, reads the request,
//! opens a connection to the backend that the request is for, and from then on changes
//! addresses, ports and numbers of the packets of both. The two hosts keep reliability
//! and congestion control.
//!
//! ```text
//! client            agent             backend
//!   │─ SYN x ────────►│                  │
//!   │◄─ SYN-ACK c ────│   cookie         │
//!   │─ request ──────►│   request        │
//!   │                 │─ SYN x ─────────►│
//!   │                 │◄─ SYN-ACK s ─────│
//!   │                 │─ header anew ───►│   forwarding, edits
//!   │◄───── s → c ────┼── response ──────│   relay
//! ```
//!
//! The agent acknowledges no byte of the client's before a backend has, so whatever gets
//! lost, its sender repeats. The one exception is a header in several segments of which
//! one got lost ([`Event::Owned`]).
#![forbid(unsafe_code)]

mod agent;
mod blocks;
mod changes;
mod clocks;
mod connection;
mod cookie;
mod edits;
mod ends;
mod forwarding;
mod framing;
mod hardware;
mod hello;
mod known_clocks;
mod learnt;
mod options;
mod order;
mod passage;
mod proxy_v2;
mod record;
mod records;
mod refusal;
mod rejection;
mod relay;
mod request;
mod response;
mod returning;
mod segment;
mod settings;
mod steady;
mod table;
mod world;

pub use agent::{Agent, Passing};
pub use changes::{Changes, NamedValue};
pub use ends::Ends;
pub use forwarding::{Additions, forwarded_header};
pub use framing::{BadChunk, Chunked};
pub use hardware::{Constant, Loan, Worth};
pub use hello::{Hello, HelloError};
pub use options::{Offer, Stamps};
pub use passage::{Exit, Passage, Place, Side};
pub use proxy_v2::{MAX_PROXY, ProxyBytes, ProxyHeader, without_port};
pub use record::{ABORTED, Record, UNREAD};
pub use refusal::Refusal;
pub use rejection::Rejection;
pub use request::{Body, Field, MAX_FIELDS, Request};
pub use response::{Asked, BadResponse, Head, MAX_WAITING, Responses};
pub use settings::{Settings, Usage};
pub use steady::{Leave, Steady};
pub use world::{
    Answer, Choice, Event, Fate, Inquiry, MAX_ANSWER, Peer, Response, Speaks, Terms, World,
};
