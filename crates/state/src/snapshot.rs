//! What the control side compiles and what all workers share.
use std::net::IpAddr;
use std::sync::Arc;

use arc_swap::ArcSwap;
use conntrack::ConnTable;
use flow::{AdmissionPolicy, HopId, InterfaceId, PortId, Refuse};
use l3::{Interfaces, NeighbourTable, RouteTable};
use service::{BackendLoads, ServiceTable};
use wire::Mac;

use crate::{MarkTable, QueueEpochs, QueueTable, Tunnels};

/// The configuration in the form that workers read. Replaced as a whole; a
/// worker picks a new one up at its loop's top. The control thread keeps the
/// old one for a while, so that no worker has to free it.
#[derive(Clone, Debug)]
pub struct Snapshot {
    /// VIPs and backends.
    pub services: ServiceTable,
    /// The load balancer's own attachments.
    pub interfaces: Interfaces,
    /// How everything else is reached.
    pub routes: RouteTable,
    /// How packets get to backends that are reached through tunnels.
    pub tunnels: Tunnels,
    /// When connections are offered to the NIC.
    pub admit: AdmissionPolicy,
    /// Of the packets matched by queue, one in so many is looked up for
    /// ageing; 0: none.
    pub sample: u32,
    /// How long fragments of a datagram belong together, in milliseconds.
    pub fragment_timeout_ms: u64,
    /// What is answered to packets that go no further.
    pub answers: Answers,
}

/// What the load balancer answers itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Answers {
    /// The answer to packets for a port of a VIP that no service has.
    pub closed_ports: Refuse,
    /// ICMP errors and RSTs that one worker may send in a second.
    pub per_second: u32,
}

impl Snapshot {
    /// Whether `addr` is answered for: a VIP, an address of a pool or of an
    /// interface.
    #[must_use]
    pub fn is_ours(&self, addr: IpAddr) -> bool {
        self.services.has(addr)
            || match addr {
                IpAddr::V4(addr) => self.interfaces.has_v4(addr),
                IpAddr::V6(_) => self.interfaces.owner(addr).is_some(),
            }
    }
}

/// One port, as all threads see it.
#[derive(Debug)]
pub struct PortShared {
    /// What a mark means on this port.
    pub marks: MarkTable,
    /// What a receive queue means on this port.
    pub queues: QueueTable,
    /// How far the receive queues have been emptied.
    pub queue_epochs: QueueEpochs,
    /// The port's Ethernet address.
    pub mac: Mac,
    /// The longest IP packet it sends, in bytes.
    pub mtu: u16,
}

/// One per process: what workers, keeper and offload side share.
#[derive(Debug)]
pub struct Shared {
    /// Connections.
    pub table: ConnTable,
    /// Next hops.
    pub neighbours: NeighbourTable,
    /// What each backend carries: one connection more at insertion, one less at removal.
    pub loads: BackendLoads,
    /// The present configuration.
    pub snapshot: ArcSwap<Snapshot>,
    /// By [`PortId`].
    pub ports: Vec<PortShared>,
}

impl Shared {
    /// The shared state with `snapshot` as the first configuration.
    #[must_use]
    pub fn new(
        snapshot: impl Into<Arc<Snapshot>>,
        table: ConnTable,
        neighbours: NeighbourTable,
        ports: Vec<PortShared>,
    ) -> Self {
        let loads = BackendLoads::default();
        Self { table, neighbours, loads, snapshot: ArcSwap::from(snapshot.into()), ports }
    }

    /// The port `id`.
    #[inline]
    #[must_use]
    pub fn port(&self, id: PortId) -> Option<&PortShared> {
        self.ports.get(usize::from(id.0))
    }

    /// The port behind which `hop` lies; `None` if the hop or its interface is gone.
    #[must_use]
    pub fn port_of(&self, hop: HopId) -> Option<PortId> {
        let interface: InterfaceId = self.neighbours.interface(hop)?;
        self.snapshot.load().interfaces.get(interface).map(|interface| interface.port)
    }

    /// The next hop towards `addr`, entered into the neighbour table if it is
    /// new; for the control side, which knows the backends beforehand.
    #[must_use]
    pub fn hop_to(&self, addr: IpAddr, now_ms: u64) -> Option<HopId> {
        let (interface, next) = self.snapshot.load().routes.next(addr)?;
        self.neighbours.hop(interface, next, now_ms)
    }
}
