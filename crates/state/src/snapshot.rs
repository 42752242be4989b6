//! What the control side compiles and what all workers share.
use std::net::IpAddr;
use std::ops::Deref;
use std::sync::Arc;

use arc_swap::{ArcSwap, Cache};
use conntrack::ConnTable;
use flow::{AdmissionPolicy, HopId, InterfaceId, PortId, Refuse};
use l3::{Interfaces, NeighbourTable, RouteTable};
use service::{BackendLoads, ServiceTable};
use wire::Mac;

use crate::{
    Awaited, BackendTotals, Claims, Gates, Loans, MarkTable, QueueEpochs, QueueTable, Tunnels,
    WorkerLoads,
};

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
    /// A connection of an L7 agent is offered to the NIC while at least so many bytes of a
    /// response are still to come; of one that is not read, once so many have come.
    pub reply_bytes: u64,
    /// How long fragments of a datagram belong together, in milliseconds.
    pub fragment_timeout_ms: u64,
    /// What is answered to packets that go no further.
    pub answers: Answers,
}

/// What the load balancer answers itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Answers {
    /// The answer to packets for a port of a VIP that no service uses.
    pub closed_ports: Refuse,
    /// ICMP errors and RSTs that one worker may send in a second.
    pub per_second: u32,
    /// Echo requests that one worker answers in a second.
    pub echoes_per_second: u32,
    /// Packets that one worker may give to the kernel in a second.
    pub to_kernel_per_second: u32,
    /// Packets that are taken from the kernel in a second.
    pub from_kernel_per_second: u32,
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
    /// Which receive queues are left alone while a bucket moves.
    pub gates: Gates,
    /// The port's Ethernet address.
    pub mac: Mac,
    /// The longest IP packet it sends, in bytes.
    pub mtu: u16,
}

/// One per process: what workers, keeper and offload side share.
#[derive(Debug)]
pub struct Shared {
    table: ConnTable,
    neighbours: NeighbourTable,
    loads: BackendLoads,
    totals: BackendTotals,
    claims: Claims,
    awaited: Awaited,
    worker_loads: WorkerLoads,
    loans: Loans,
    snapshot: ArcSwap<Snapshot>,
    /// By [`PortId`].
    ports: Vec<PortShared>,
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
        let (loads, totals) = (BackendLoads::default(), BackendTotals::default());
        let (claims, awaited, worker_loads, loans) = Default::default();
        Self {
            table,
            neighbours,
            loads,
            totals,
            claims,
            awaited,
            worker_loads,
            loans,
            snapshot: ArcSwap::from(snapshot.into()),
            ports,
        }
    }

    /// The same with `loads` as what each backend carries.
    #[must_use]
    pub fn with_loads(self, loads: BackendLoads) -> Self {
        Self { loads, ..self }
    }

    /// Connections.
    #[inline]
    #[must_use]
    pub const fn table(&self) -> &ConnTable {
        &self.table
    }

    /// Next hops.
    #[inline]
    #[must_use]
    pub const fn neighbours(&self) -> &NeighbourTable {
        &self.neighbours
    }

    /// What each backend carries: one connection more at insertion, one less at removal.
    #[inline]
    #[must_use]
    pub const fn loads(&self) -> &BackendLoads {
        &self.loads
    }

    /// What has been sent on for each backend and service.
    #[must_use]
    pub const fn totals(&self) -> &BackendTotals {
        &self.totals
    }

    /// Which packets from backends are the terminator's.
    #[inline]
    #[must_use]
    pub const fn claims(&self) -> &Claims {
        &self.claims
    }

    /// Ids that are lent to connections of L7 agents.
    #[must_use]
    pub const fn loans(&self) -> &Loans {
        &self.loans
    }

    /// Connections that wait for their backends' answers after a takeover.
    #[inline]
    #[must_use]
    pub const fn awaited(&self) -> &Awaited {
        &self.awaited
    }

    /// How busy the workers are.
    #[must_use]
    pub const fn worker_loads(&self) -> &WorkerLoads {
        &self.worker_loads
    }

    /// All ports, by [`PortId`].
    #[inline]
    #[must_use]
    pub fn ports(&self) -> &[PortShared] {
        &self.ports
    }

    /// The present configuration. A worker, which asks for it every round, has a
    /// [`SnapshotReader`].
    #[must_use]
    pub fn snapshot(&self) -> Arc<Snapshot> {
        self.snapshot.load_full()
    }

    /// Puts `snapshot` in the place of the present configuration, which is returned:
    /// whoever drops its last reference frees it, and no worker should.
    pub fn publish(&self, snapshot: Arc<Snapshot>) -> Arc<Snapshot> {
        self.snapshot.swap(snapshot)
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

/// One worker's view of the present configuration, for which asking is cheap.
pub struct SnapshotReader(Cache<Published, Arc<Snapshot>>);

impl SnapshotReader {
    /// A reader of the configuration of `shared`.
    #[must_use]
    pub fn new(shared: &Arc<Shared>) -> Self {
        Self(Cache::new(Published(Arc::clone(shared))))
    }

    /// The present configuration.
    #[inline]
    #[must_use]
    pub fn load(&mut self) -> &Arc<Snapshot> {
        self.0.load()
    }
}

/// Where the configuration is published.
struct Published(Arc<Shared>);

impl Deref for Published {
    type Target = ArcSwap<Snapshot>;

    fn deref(&self) -> &ArcSwap<Snapshot> {
        &self.0.snapshot
    }
}
