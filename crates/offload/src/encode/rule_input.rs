//! All that a connection's rule is made from.
use conntrack::ConnId;
use flow::{Account, BackendId, Direction, HopId};
use service::{Binding, Delivery};
use wire::{Encap, FlowKey};

use crate::environment::{Connections, NextHop, NextHops, Path, Ports};

/// Where a rule sends its packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Destination {
    hop: HopId,
    /// Whose tunnel they enter.
    tunnel: Option<BackendId>,
}

impl Destination {
    /// The next hop.
    pub(crate) const fn hop(self) -> HopId {
        self.hop
    }

    /// How packets get there now: by which next hop, in which tunnel. `None`:
    /// the next hop has been forgotten.
    pub(crate) fn resolve(self, hops: &impl NextHops) -> Option<(NextHop, Option<Encap>)> {
        let tunnel = self.tunnel.and_then(|backend| hops.tunnel(backend));
        Some((hops.next_hop(self.hop)?, tunnel))
    }
}

/// One direction of a connection, and all else that its rule is made from.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RuleInput {
    pub(super) conn: ConnId,
    pub(super) direction: Direction,
    /// Which worker should get its packets; `None`: any.
    pub(super) worker: Option<u16>,
    pub(super) binding: Binding,
    /// What its packets have in their headers.
    pub(super) key: FlowKey,
    /// Whether the connection's service serves every port.
    pub(super) any_port: bool,
    pub(super) to: Destination,
    /// What is added to its sequence and acknowledgement numbers.
    pub(super) added: Option<[u32; 2]>,
    /// Where its packets go.
    pub(super) next_hop: Option<NextHop>,
    /// The tunnel they enter.
    pub(super) tunnel: Option<Encap>,
    /// Where they come from.
    pub(super) from: Option<NextHop>,
    /// The longest IP packet that comes there, in bytes.
    pub(super) longest: u16,
    /// The connection's timeout.
    pub(super) timeout_ms: u32,
}

impl RuleInput {
    /// What the rule for `direction` of `conn`, whose packets take `path`, is
    /// made from; `None`: the endpoints are of different families.
    pub(crate) fn gather(
        environment: &(impl Connections + NextHops + Ports),
        (conn, direction): (ConnId, Direction),
        worker: Option<u16>,
        binding: Binding,
        path: &Path,
    ) -> Option<Self> {
        let tunnel = match binding.forwarding.delivery(direction, binding.backend) {
            Some(Delivery::Tunnel(backend)) => Some(backend),
            _ => None,
        };
        Some(Self {
            conn,
            direction,
            worker,
            binding,
            key: binding.key(direction)?,
            any_port: environment.any_port(binding.service),
            to: Destination { hop: path.hop, tunnel },
            added: environment.added(conn),
            next_hop: environment.next_hop(path.hop),
            tunnel: tunnel.and_then(|backend| environment.tunnel(backend)),
            from: environment.next_hop(path.from),
            longest: environment.station(path.arrives).map_or(u16::MAX, |(_, mtu)| mtu),
            timeout_ms: environment.timeout_ms(conn).unwrap_or_default(),
        })
    }

    /// Whether its numbers change, which only cards do: no other encoding can express that.
    pub(crate) const fn is_spliced(&self) -> bool {
        self.added.is_some()
    }

    /// Whose rule it is.
    pub(crate) const fn owner(&self) -> (ConnId, Direction) {
        (self.conn, self.direction)
    }

    /// For whom its packets count.
    pub(crate) const fn account(&self) -> Account {
        Account { backend: self.binding.backend, direction: self.direction }
    }

    /// What the rule matches.
    pub(crate) const fn key(&self) -> &FlowKey {
        &self.key
    }

    /// Where the rule sends its packets.
    pub(crate) const fn destination(&self) -> Destination {
        self.to
    }

    /// By which next hop, and in which tunnel.
    pub(crate) fn resolved(&self) -> Option<(NextHop, Option<Encap>)> {
        Some((self.next_hop?, self.tunnel))
    }
}
