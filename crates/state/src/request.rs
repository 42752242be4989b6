//! Where packets come from, and what workers tell the offload side.
use flow::PortId;

/// Where a burst was received.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Source {
    /// The port.
    pub port: PortId,
    /// Its receive queue.
    pub queue: u16,
}

/// What workers and the keeper tell the offload side about a connection.
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
    /// No packet of it has come for its timeout.
    Expired,
    /// Its rules must go now: its numbers are about to change, or it ends.
    Recalled,
}
