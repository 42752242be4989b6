//! The way out of the pipeline.
use conntrack::ConnId;
use flow::{HopId, InterfaceId, PortId, ServiceId};
use splice::Record;
use state::{Offload, Source};

/// Takes what a pipeline gives out. The caller of
/// [`Pipeline::process`](crate::Pipeline::process) brings it.
pub trait Outbox<B> {
    /// Sends `packet` on `port`.
    fn send(&mut self, port: PortId, packet: B);

    /// A buffer of `len` bytes, whose values are not defined, for a packet that
    /// originates here; `None` if no buffer is free.
    fn fresh(&mut self, len: usize) -> Option<B>;

    /// Passes `reason` for `conn` on to the offload side. `false`: the ring is full;
    /// the lost message is counted, and a later packet repeats it.
    fn offload(&mut self, conn: ConnId, reason: Offload) -> bool;

    /// Asks for `hop` to be resolved soon.
    fn resolve(&mut self, hop: HopId);

    /// Hands `packet`, which came in at `from`, over to the worker whose it is. `false`:
    /// there is no room for it, and it is dropped.
    fn hand_over(&mut self, worker: usize, from: Source, packet: B) -> bool;

    /// Gives `packet`, without a tag, to the kernel, as one that came in on
    /// `interface`. `false`: there is no room for it, and it is dropped.
    fn to_kernel(&mut self, interface: InterfaceId, packet: B) -> bool;

    /// Gives `packet` to the terminator of TLS; `service`: it is a client's to that.
    /// `false`: there is no room for it, or no terminator, and it is dropped.
    fn to_terminator(&mut self, _service: Option<ServiceId>, _packet: B) -> bool {
        false
    }

    /// Logs a request to a service that reads requests. `false`: there is no room for it,
    /// and it is lost.
    fn log(&mut self, _: &Record) -> bool {
        true
    }
}
