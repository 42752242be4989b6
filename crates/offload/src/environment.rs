//! What the offload side reads from, and tells, connections and ports.
use std::sync::Arc;

use conntrack::ConnId;
use flow::{BackendId, Direction, HopId, PortId, ServiceId};
use service::Binding;
use state::{BackendCounts, MarkTable, QueueEpochs, QueueTable, WorkerLoads};
use wire::{Encap, Mac};

/// Where packets of one direction of a connection come in and go out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Path {
    /// The port they arrive at, which is where the next hop of the other
    /// direction lies: the rule goes there.
    pub arrives: PortId,
    /// The next hop they are sent to.
    pub hop: HopId,
    /// The next hop of the other direction, from whose link they come.
    pub from: HopId,
}

/// How frames get to a next hop, or come from its link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NextHop {
    /// The port.
    pub port: PortId,
    /// The VLAN of its interface; `None`: untagged.
    pub vlan: Option<u16>,
    /// Our own Ethernet address there.
    pub source: Mac,
    /// The next hop's; `None` while it is not known.
    pub mac: Option<Mac>,
    /// The longest IP packet that may be sent there, in bytes.
    pub mtu: u16,
}

/// The tables of one port that workers read.
#[derive(Clone, Copy, Debug)]
pub struct PortTables<'a> {
    /// What its marks mean.
    pub marks: &'a MarkTable,
    /// What its queues mean.
    pub queues: &'a QueueTable,
    /// How far its queues have been emptied.
    pub queue_epochs: &'a QueueEpochs,
}

/// The connection table, as the offload side sees it.
pub trait Connections {
    /// The binding of `conn`; `None` if there is no such connection.
    fn binding(&self, conn: ConnId) -> Option<Binding>;

    /// What is added to the sequence and acknowledgement numbers of the packets that `conn`'s
    /// backend sends; `None`: they pass as they are, and so do the client's. Of a connection
    /// with added numbers only the backend's packets may have a rule.
    fn added(&self, conn: ConnId) -> Option<[u32; 2]> {
        let _ = conn;
        None
    }

    /// Where packets of `direction` come in and go out; `None` if there is no
    /// such connection or one of its next hops is unknown.
    fn path(&self, conn: ConnId, direction: Direction) -> Option<Path>;

    /// How many connections have had the id `conn`; `None` if none has it now.
    fn generation(&self, conn: ConnId) -> Option<u32>;

    /// Whether both ends of `conn` have spoken and neither has finished.
    fn is_established(&self, conn: ConnId) -> bool;

    /// Marks `conn` as one that rules are asked for, as a worker would, so that the
    /// ager does not remove it meanwhile. `false` if there is no such connection, or
    /// it has rules.
    fn claim(&self, conn: ConnId) -> bool;

    /// Keeps `conn` from being removed, since rules for it are about to be
    /// created. `false` if there is no such connection.
    fn hold(&self, conn: ConnId) -> bool;

    /// The rules of `conn` are being taken back; it is still held.
    fn withdrawing(&self, conn: ConnId);

    /// `conn` has no rule, and no packet refers to one, so it may be removed.
    /// With `ask_again` workers may ask for rules again; without, they need not
    /// because it is waiting for a rule or the NIC doesn't take it.
    fn let_go(&self, conn: ConnId, ask_again: bool);

    /// The timeout of `conn` starts anew, as if a packet had come now: while the NIC
    /// had the connection, no worker saw whether one came.
    fn rearm(&self, conn: ConnId, now_ms: u64);

    /// How long `conn` may be without a packet, in milliseconds, in the state
    /// it is in; `None` if there is no such connection.
    fn timeout_ms(&self, conn: ConnId) -> Option<u32>;

    /// Milliseconds since the last packet of `conn` that a worker has seen, or
    /// since its timeout was started anew.
    fn idle_ms(&self, conn: ConnId, now_ms: u64) -> Option<u64>;

    /// Whether `service` serves every port of its VIP.
    fn any_port(&self, service: ServiceId) -> bool;
}

/// Next hops and tunnels, as the offload side sees them.
pub trait NextHops {
    /// How frames get to `hop`; `None` if it has been forgotten.
    fn next_hop(&self, hop: HopId) -> Option<NextHop>;

    /// Notes that packets go to `hop`, though no worker sees them, so that its
    /// address is kept fresh.
    fn use_hop(&self, hop: HopId, now_ms: u64);

    /// How often the address or state of a next hop has changed.
    fn hop_changes(&self) -> u64;

    /// The tunnel to `backend`; `None`: there is none.
    fn tunnel(&self, backend: BackendId) -> Option<Encap>;
}

/// The ports, as the offload side sees them.
pub trait Ports {
    /// The tables of `port`; `None` if there is no such port.
    fn tables(&self, port: PortId) -> Option<PortTables<'_>>;

    /// Where the offload side alone notes what rules have sent on past the workers.
    fn counts(&self) -> Arc<BackendCounts>;

    /// How busy the workers are.
    fn worker_loads(&self) -> &WorkerLoads;

    /// The Ethernet address of untagged frames for us on `port`, and the
    /// longest IP packet that can come there; `None`: it has no untagged interface.
    fn station(&self, port: PortId) -> Option<(Mac, u16)>;
}

/// All that the offload side reads from, and tells, the rest of the process.
pub trait Environment: Connections + NextHops + Ports {}

impl<T: Connections + NextHops + Ports> Environment for T {}
