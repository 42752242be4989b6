//! What a service table is compiled from.
use std::net::IpAddr;
use std::ops::RangeInclusive;

use flow::{AllDown, OnRemove, Refuse, Scheduler, StatelessKey};
use wire::{Transport, Tunnel};

use crate::{Forwarding, QuicIds, Reads, RoutesSpec, ServerId, Timeouts};

/// The Maglev table size when none is given, a prime (Maglev paper, section
/// 5.3, uses it too).
pub const MAGLEV_DEFAULT: u32 = 65537;

/// One service as the operator describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServiceSpec {
    /// Its name, for people.
    pub name: String,
    /// The address that clients speak to.
    pub vip: IpAddr,
    /// The port that clients speak to; `None`: any.
    pub port: Option<u16>,
    /// TCP or UDP.
    pub proto: Transport,
    /// How packets reach the backends.
    pub mode: ModeSpec,
    /// How backends are chosen for new connections.
    pub scheduler: Scheduler,
    /// Slots of the Maglev table: a prime, at least 100 times the backends.
    pub maglev_size: u32,
    /// What happens to the connections of a backend that leaves the configuration.
    pub on_remove: OnRemove,
    /// What happens when health checks take backends down.
    pub failover: Failover,
    /// The answer to packets that no backend takes.
    pub refuse: Refuse,
    /// How long its connections are kept without packets, if not as all others.
    pub timeouts: Option<Timeouts>,
    /// How connection ids name the backends of a QUIC service; empty: they don't.
    pub quic: Vec<QuicIds>,
    /// Of a service whose connections take the L7 agent or the terminator: how they are
    /// routed; `None`: they are in the connection table.
    pub routes: Option<RoutesSpec>,
    /// The servers behind it, all of the VIP's family but for tunnels.
    pub backends: Vec<BackendSpec>,
}

/// What a service does when health checks take backends down.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Failover {
    /// What happens to the connections of a backend that is down.
    pub connections: OnRemove,
    /// What happens to new connections when no backend is up.
    pub all_down: AllDown,
}

/// One backend of a service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BackendSpec {
    /// Its address.
    pub address: IpAddr,
    /// Its port; `None`: the port that the client asked for. Must be `None` in
    /// a service of any port, because the answers' port must tell which port
    /// of the VIP they come from, and where packets reach it as they are.
    pub port: Option<u16>,
    /// Its share of new connections; 0: drained, it gets none.
    pub weight: u16,
    /// Whether it gets new connections only while no other backend does.
    pub backup: bool,
    /// What names it in connection ids of a QUIC service.
    pub server_ids: Vec<ServerId>,
    /// The backends it belongs to, of a service that balances HTTP requests or TLS
    /// connections.
    pub group: Option<String>,
}

/// How packets of a service get to its backends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ModeSpec {
    /// Towards the backend the destination is rewritten, from it the source:
    /// the load balancer must be in the return path.
    Nat,
    /// Both endpoints are rewritten: the backend sees an address of the pool.
    FullNat {
        /// Where the source addresses and ports are taken from.
        pool: PoolSpec,
    },
    /// Packets go to the backend's Ethernet address as they are. The backend
    /// has the VIP, without announcing it, and answers clients itself.
    Dsr,
    /// Packets go through a tunnel to the backend, which may be of the other
    /// family and any number of routers away. The backend has the VIP, and
    /// answers clients itself.
    Tunnel(TunnelSpec),
    /// As `Dsr`, and without connections: 32 bits of each packet alone choose
    /// the backend, whatever the scheduler ([`crate::Classes`]).
    Stateless(StatelessKey),
}

impl ModeSpec {
    /// How packets get to their backend.
    #[must_use]
    pub const fn forwarding(&self) -> Forwarding {
        match self {
            Self::Nat | Self::FullNat { .. } => Forwarding::Rewrite,
            Self::Dsr | Self::Stateless(_) => Forwarding::Direct,
            Self::Tunnel(_) => Forwarding::Tunnel,
        }
    }
}

/// The tunnels of a service, one to each backend.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TunnelSpec {
    /// What is between the outer and the inner IP header.
    pub tunnel: Tunnel,
    /// The outer source address; `None`: that of the interface towards the backend.
    pub source: Option<IpAddr>,
    /// Hops that the outer packet may take.
    pub ttl: u8,
}

/// Addresses and ports of a full-NAT service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PoolSpec {
    /// Its name, for people.
    pub name: String,
    /// Addresses; those of another family than the VIP's are left out.
    pub addresses: Vec<IpAddr>,
    /// Ports used at each address.
    pub ports: RangeInclusive<u16>,
}

/// What a service must have in common with an earlier one to be the same.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Identity<'a> {
    pub(crate) name: &'a str,
    pub(crate) vip: IpAddr,
    pub(crate) port: Option<u16>,
    pub(crate) proto: Transport,
    pub(crate) mode: &'a ModeSpec,
    /// Of a service with routes: what is read of its connections.
    pub(crate) routed: Option<Reads>,
}

impl Identity<'_> {
    pub(crate) fn succeeds(&self, old: &Self) -> bool {
        let same = (self.name, self.vip, self.port, self.proto, self.routed)
            == (old.name, old.vip, old.port, old.proto, old.routed);
        same && match (old.mode, self.mode) {
            (ModeSpec::Nat, ModeSpec::Nat)
            | (ModeSpec::Dsr, ModeSpec::Dsr)
            | (ModeSpec::Stateless(_), ModeSpec::Stateless(_)) => true,
            (ModeSpec::Tunnel(old), ModeSpec::Tunnel(new)) => old.tunnel == new.tunnel,
            (ModeSpec::FullNat { pool: old }, ModeSpec::FullNat { pool: new }) => {
                old.is_within(new)
            }
            _ => false,
        }
    }
}

impl ServiceSpec {
    /// Whether it is the same service as `old`, perhaps with other backends or
    /// settings: the name, what clients speak to and the way to the backends are
    /// the same, and every local endpoint that a connection may have is still in
    /// the pool.
    #[must_use]
    pub fn succeeds(&self, old: &Self) -> bool {
        self.identity().succeeds(&old.identity())
    }

    pub(crate) const fn is_stateless(&self) -> bool {
        matches!(self.mode, ModeSpec::Stateless(_))
    }

    pub(crate) fn identity(&self) -> Identity<'_> {
        let Self { name, vip, port, proto, mode, routes, .. } = self;
        let routed = routes.as_ref().map(|routes| routes.reads);
        Identity { name, vip: *vip, port: *port, proto: *proto, mode, routed }
    }
}

impl PoolSpec {
    /// Whether every endpoint is in `other`, too.
    fn is_within(&self, other: &Self) -> bool {
        let ports =
            other.ports.contains(self.ports.start()) && other.ports.contains(self.ports.end());
        self.name == other.name
            && ports
            && self.addresses.iter().all(|address| other.addresses.contains(address))
    }
}
