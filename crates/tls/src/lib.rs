//! TLS terminated in two parts (LB-NIC, section 3.3 and figure 4): handshakes are
//! asymmetric work with private keys, records symmetric work with the secrets of one
//! connection. Neither part does input or output.
//!
//! ```text
//! client's bytes -> Handshake (a Pool's thread) ------------> Established
//!                                                    |                |
//!                                       Successor (next keys)   Session (a worker: records)
//! ```
//!
//! Private keys may be kept by another process, which signs ([`keep_keys_in`]).
//!
//! Towards backends [`BackendTls`] is the side of the client, which has no key of its own.
//!
//! [`Pool`] bounds how many handshakes wait, in all and by client network, so that a flood
//! of hellos holds up no record.
#![forbid(unsafe_code)]

mod backend;
mod certificate;
mod client;
mod handshake;
mod keys;
mod pool;
mod record;
mod secrets;
mod server;
mod session;
mod tickets;

pub use backend::{
    BackendError, BackendSession, BackendSettings, BackendTls, BackendTlsError, Fingerprint,
};
pub use certificate::{Certificate, CertificateError, Certificates};
pub use client::{ClientCertificate, ClientRefusal};
pub use handshake::{Established, Handshake, HandshakeError, Progress};
pub use keys::{keep_in as keep_keys_in, serve as serve_keys};
pub use pool::{Finished, Pool, PoolError, PoolSettings, Refused, Started};
pub use record::{ContentType, HEADER_LEN, MAX_PAYLOAD, OVERHEAD, Record, RecordError};
pub use secrets::{Secrets, Successor, Suite, TrafficKey, Version};
pub use server::{ServerError, ServerSettings, Tls};
pub use session::{Alert, Incoming, Session, SessionError};
pub use tickets::TicketKey;
