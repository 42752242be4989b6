//! What the offload side must know, and tell, of connections and ports.
use conntrack::ConnId;
use pipeline::encoding::{MarkTable, QueueTable};
use pipeline::{PortId, QueueEpochs};
use service::{Binding, Direction, HopId, ServiceId};

/// Where packets of one direction of a connection come in and go out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Path {
    /// The port they arrive at, which is where the next hop of the other
    /// direction lies: the rule goes there.
    pub arrives: PortId,
    /// The next hop they are sent to.
    pub hop: HopId,
}

/// The tables of one port that workers read.
#[derive(Clone, Copy, Debug)]
pub struct PortTables<'a> {
    /// What its marks mean.
    pub marks: &'a MarkTable,
    /// What its queues mean.
    pub queues: &'a QueueTable,
    /// How far its queues have been emptied.
    pub drained: &'a QueueEpochs,
}

/// The connection table and the ports' tables, as the offload side sees them.
pub trait Connections {
    /// The binding of `conn`; `None` if there is no such connection.
    fn binding(&self, conn: ConnId) -> Option<Binding>;

    /// Where packets of `direction` come in and go out; `None` if there is no
    /// such connection or one of its next hops is unknown.
    fn path(&self, conn: ConnId, direction: Direction) -> Option<Path>;

    /// How many connections have had the id `conn`; `None` if none has it now.
    fn generation(&self, conn: ConnId) -> Option<u32>;

    /// Whether both ends of `conn` have spoken and neither has finished.
    fn is_established(&self, conn: ConnId) -> bool;

    /// Marks `conn` as one that rules are asked for, as a worker would, so that
    /// it is not removed behind our back. `false` if there is no such
    /// connection, or it has rules.
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

    /// The timeout of `conn` starts anew, as if a packet had come now: nobody
    /// can know whether one has, while the NIC had the connection.
    fn rearm(&self, conn: ConnId, now_ms: u64);

    /// Whether `service` serves every port of its VIP.
    fn any_port(&self, service: ServiceId) -> bool;

    /// The tables of `port`; `None` if there is no such port.
    fn port(&self, port: PortId) -> Option<PortTables<'_>>;
}
