//! Ports, receive queues and the way out of the pipeline.
use conntrack::ConnId;
use flow::{HopId, PortId};

/// Where a burst was received.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Source {
    /// The port.
    pub port: PortId,
    /// Its receive queue.
    pub queue: u16,
}

/// What a worker tells the offload side about a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Offload {
    /// It deserves rules in the NIC.
    Wanted,
    /// It is ending: its rules may go.
    Closing,
    /// Its 5-tuple was opened again: rules that still fit its binding stay, others go.
    Reopened,
    /// One of its packets was sampled, in software or matched by the NIC, and
    /// stands for so many.
    Seen(u32),
}

/// Takes what a pipeline gives out. The caller of
/// [`Pipeline::process`](crate::Pipeline::process) brings it.
pub trait Outbox<B> {
    /// Sends `packet` on `port`.
    fn send(&mut self, port: PortId, packet: B);

    /// A buffer of `len` bytes, whose values are not defined, for a packet
    /// that originates here; `None` if there is none.
    fn fresh(&mut self, len: usize) -> Option<B>;

    /// Passes `reason` for `conn` on to the offload side. `false` if the ring
    /// is full: it is counted, and tried again at a later packet.
    fn offload(&mut self, conn: ConnId, reason: Offload) -> bool;

    /// Asks for `hop` to be resolved soon.
    fn resolve(&mut self, hop: HopId);
}
