//! Why the load balancer can't start.
use dpdk::{EalError, MempoolError, PortError, ThreadError};
use setup::SetupError;

use crate::status_socket::StatusSocketError;

/// Nothing starts half-way: whatever of this happens, everything that was
/// opened is closed again.
#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    /// DPDK does not start.
    #[error(transparent)]
    Eal(#[from] EalError),
    /// No memory for packets.
    #[error(transparent)]
    Mempool(#[from] MempoolError),
    /// A port can't be opened.
    #[error("port '{name}': {source}")]
    Port {
        /// Its name in the configuration.
        name: String,
        /// What is wrong.
        source: PortError,
    },
    /// The emulated NIC can't be as configured.
    #[error("port '{name}': [port.nic]: {source}")]
    Nic {
        /// The port's name in the configuration.
        name: String,
        /// What is wrong.
        source: nic::NicError,
    },
    /// A device gave no queue.
    #[error("port '{name}': the device gave no receive or send queue")]
    NoQueues {
        /// The port's name in the configuration.
        name: String,
    },
    /// More workers than send queues.
    #[error(
        "port '{name}' has {has} send queues for {workers} workers; set [workers] count to {has}"
    )]
    TooFewSendQueues {
        /// The port's name in the configuration.
        name: String,
        /// What it has.
        has: usize,
        /// What is needed.
        workers: usize,
    },
    /// The shared state can't be built.
    #[error(transparent)]
    Setup(#[from] SetupError),
    /// More workers than the connection table admits.
    #[error(transparent)]
    Workers(#[from] conntrack::ReaderError),
    /// A thread can't be started or pinned.
    #[error("thread '{name}': {reason}")]
    Thread {
        /// Its name.
        name: String,
        /// What is wrong.
        reason: String,
    },
    /// A thread can't be registered or pinned.
    #[error(transparent)]
    Register(#[from] ThreadError),
    /// The status socket can't be served.
    #[error(transparent)]
    Status(#[from] StatusSocketError),
}
