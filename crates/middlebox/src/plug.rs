//! The server's end of a function's attachment: a DPDK port, or a memif socket of our own.
//!
//! DPDK 22.11 has memif, too, but its server unmaps the memory of a client that is gone
//! while the polling thread may read it; see the crate `memif`.
use std::path::Path;

use dpdk::{Batch, Mempool, Port, PortError, RxQueue, TxQueue};
use packet::PacketBuf;

use crate::server::ServerError;

/// What a function is plugged into.
pub(crate) enum Plug {
    Device(Port),
    Memif(memif::Socket),
}

/// Frames from a function, for the polling thread.
pub(crate) enum Intake {
    Device(RxQueue),
    Memif(memif::Receiver, Mempool),
}

/// Frames towards a function or a port, for the polling thread.
pub(crate) enum Outlet {
    Device(TxQueue),
    Memif(memif::Sender),
}

impl Plug {
    /// A port with one queue each way.
    pub(crate) fn device(mut port: Port) -> Result<(Self, Intake, Outlet), PortError> {
        let (rx, tx) = (port.rx_queue(0)?, port.tx_queue(0)?);
        Ok((Self::Device(port), Intake::Device(rx), Outlet::Device(tx)))
    }

    /// A socket at `path`; frames are copied into buffers of `pool`.
    pub(crate) fn memif(
        path: &Path,
        pool: &Mempool,
    ) -> Result<(Self, Intake, Outlet), ServerError> {
        let (socket, receiver, sender) = memif::Socket::bind(path)?;
        let intake = Intake::Memif(receiver, pool.clone());
        Ok((Self::Memif(socket), intake, Outlet::Memif(sender)))
    }

    /// Whether a function is there.
    pub(crate) fn link_up(&self) -> bool {
        match self {
            Self::Device(port) => port.link_up(),
            Self::Memif(socket) => socket.is_connected(),
        }
    }
}

impl Intake {
    /// Takes a burst; how many frames there were that can't be read.
    pub(crate) fn take(&mut self, batch: &mut Batch<32>) -> u64 {
        match self {
            Self::Device(queue) => {
                queue.rx_burst(batch);
                0
            }
            Self::Memif(receiver, pool) => {
                let mut overlong = 0;
                let received = receiver.receive(batch.room(), &mut |frame| {
                    let Some(mut mbuf) = pool.alloc() else { return false };
                    if !mbuf.resize(frame.len()) {
                        overlong += 1;
                        return true;
                    }
                    frame.copy_to(mbuf.bytes_mut());
                    batch.push(mbuf).is_ok()
                });
                received.garbled + overlong
            }
        }
    }
}

impl Outlet {
    /// Sends a burst; what finds no room stays in it.
    pub(crate) fn send(&mut self, batch: &mut Batch<64>) {
        match self {
            Self::Device(queue) => {
                queue.tx_burst(batch);
            }
            Self::Memif(sender) => {
                let taken = sender.send(batch.iter().map(PacketBuf::bytes));
                batch.packets().drain(..taken);
            }
        }
    }
}
