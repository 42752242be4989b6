//! The server's side of memif 2.0, a packet interface in shared memory, as DPDK's net_memif
//! and VPP's libmemif speak it in the role client.
//!
//! DPDK 22.11 has the server's side, too, but unmaps a peer's memory in the thread of its
//! interrupts while the thread that polls may read it: a client that dies can take the
//! server with it. Here the memory is unmapped by whoever lets go of it last, and nothing
//! that a client writes is believed: its memory can't be cut, every index, offset and
//! length is compared with what there is, and a client that breaks the rules of a ring is
//! disconnected.
//!
//! [`Socket::bind`] makes the socket, and a thread that speaks with clients, one at a time.
//! [`Receiver`] and [`Sender`] are for the thread that polls: they neither lock, allocate
//! nor make system calls, but for the wake-up that a client asks for.
#![forbid(unsafe_code)]

mod connection;
mod message;
mod ring;
mod session;
mod socket;

pub use connection::Frame;
pub use message::{DisconnectReason, MESSAGE_BYTES, Message};
pub use socket::{BindError, Received, Receiver, Sender, Socket};
