//! The process of a network function: one attachment, one loop.
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use dpdk::{
    Batch, Eal, EalConfig, EalError, HugePages, Mempool, MempoolError, Port, PortConfig, PortError,
};
use packet::PacketBuf;
use serde::Serialize;

use crate::attachment::Attachment;
use crate::work::Inspect;

/// Buffers of a function's process.
const BUFFERS: u32 = 8191;
/// Memory of a function's process in MiB.
const MEMORY_MB: u32 = 64;
/// Empty rounds between two naps.
const PATIENCE: u32 = 64;
const NAP: Duration = Duration::from_micros(50);
/// Rounds between two looks at the link.
const LOOK_EVERY: u32 = 4096;

/// A network function that is attached.
pub struct Function {
    port: Port,
    pool: Mempool,
    _eal: Eal,
}

/// What a function has done.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct FunctionReport {
    /// Frames received.
    pub received: u64,
    /// Frames returned.
    pub returned: u64,
    /// Frames that the function itself has dropped.
    pub dropped: u64,
    /// Frames that its queue towards the server had no room for.
    pub queue_full: u64,
    /// What the function says of them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub summary: Option<String>,
}

/// There is no function.
#[derive(Debug, thiserror::Error)]
pub enum FunctionError {
    /// The server isn't there.
    #[error("{path}: there is no socket; start the server first (hnlb nf run)")]
    NoSocket {
        /// The socket.
        path: PathBuf,
    },
    /// It runs in the server's process.
    #[error("a function that is attached by 'ring' is a thread of the server (hnlb nf run)")]
    Inside,
    /// DPDK did not start.
    #[error(transparent)]
    Eal(#[from] EalError),
    /// No buffers.
    #[error(transparent)]
    Mempool(#[from] MempoolError),
    /// No device.
    #[error(transparent)]
    Port(#[from] PortError),
}

impl Function {
    /// Attaches to a server.
    ///
    /// # Errors
    /// [`FunctionError`] says what is missing.
    pub fn attach(attachment: &Attachment, huge_pages: HugePages) -> Result<Self, FunctionError> {
        if let Some(path) = attachment.socket().filter(|path| !path.exists()) {
            return Err(FunctionError::NoSocket { path: path.to_owned() });
        }
        let device = attachment.of_function().ok_or(FunctionError::Inside)?;
        let eal = Eal::init(&EalConfig {
            memory_mb: MEMORY_MB,
            huge_pages,
            pci: attachment.is_pci(),
            ..EalConfig::default()
        })?;
        let pool = Mempool::new("function", BUFFERS, 0, 2048)?;
        let mut port = Port::open(&device, &PortConfig::default(), &pool)?;
        port.start()?;
        Ok(Self { port, pool, _eal: eal })
    }

    /// Returns every frame that `inspect` lets pass until `stop` is set or the server
    /// is gone.
    ///
    /// # Errors
    /// The port has no queues.
    pub fn run(
        mut self,
        inspect: &mut dyn Inspect,
        stop: &AtomicBool,
    ) -> Result<FunctionReport, FunctionError> {
        let (mut rx, mut tx) = (self.port.rx_queue(0)?, self.port.tx_queue(0)?);
        let mut report = FunctionReport::default();
        let mut batch = Batch::<32>::new();
        let (mut empty, mut rounds, mut linked) = (0_u32, 0_u32, false);
        while !stop.load(Ordering::Relaxed) {
            rounds = rounds.wrapping_add(1);
            if rx.rx_burst(&mut batch) == 0 {
                empty = empty.saturating_add(1);
                if empty > PATIENCE {
                    std::thread::sleep(NAP);
                }
            } else {
                empty = 0;
                report.received += batch.len() as u64;
                let before = batch.len();
                batch.retain(|packet| inspect.inspect(packet.bytes_mut()));
                report.dropped += (before - batch.len()) as u64;
                report.returned += tx.tx_burst(&mut batch) as u64;
                report.queue_full += batch.len() as u64;
                batch.clear();
            }
            if rounds % LOOK_EVERY == 0 {
                let up = self.port.link_up();
                if linked && !up {
                    tracing::info!("the server is gone");
                    break;
                }
                linked |= up;
            }
        }
        drop((rx, tx));
        self.port.stop()?;
        tracing::debug!(buffers = self.pool.in_use(), "buffers in use at the end");
        report.summary = inspect.summary();
        Ok(report)
    }
}
