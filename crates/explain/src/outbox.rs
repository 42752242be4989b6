//! What workers without devices give out.
use conntrack::ConnId;
use flow::{HopId, InterfaceId, PortId};
use packet::{HeapPacket, PacketBuf};
use pipeline::Outbox;
use state::{Offload, Source};

/// A frame that left the load balancer.
#[derive(Clone, Debug)]
pub struct Sent {
    /// The port it left on.
    pub port: PortId,
    /// The frame.
    pub packet: HeapPacket,
}

/// Collects frames and requests.
#[derive(Debug, Default)]
pub struct Collected {
    /// What they have sent.
    pub sent: Vec<Sent>,
    /// What they have said of connections.
    pub offload: Vec<(ConnId, Offload)>,
    /// The next hops whose addresses they need.
    pub resolve: Vec<HopId>,
    /// The frames that the kernel gets, and the interfaces they came in on.
    pub to_kernel: Vec<(InterfaceId, HeapPacket)>,
    /// The frames of other workers, and where they were received.
    pub handed_over: Vec<(usize, Source, HeapPacket)>,
}

impl Outbox<HeapPacket> for Collected {
    fn send(&mut self, port: PortId, packet: HeapPacket) {
        self.sent.push(Sent { port, packet });
    }

    fn fresh(&mut self, len: usize) -> Option<HeapPacket> {
        let mut packet = HeapPacket::new(&[]);
        packet.resize(len).then_some(packet)
    }

    fn offload(&mut self, conn: ConnId, reason: Offload) -> bool {
        self.offload.push((conn, reason));
        true
    }

    fn resolve(&mut self, hop: HopId) {
        self.resolve.push(hop);
    }

    fn hand_over(&mut self, worker: usize, from: Source, packet: HeapPacket) -> bool {
        self.handed_over.push((worker, from, packet));
        true
    }

    fn to_kernel(&mut self, interface: InterfaceId, packet: HeapPacket) -> bool {
        self.to_kernel.push((interface, packet));
        true
    }
}
