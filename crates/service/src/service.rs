//! One compiled service and its backends.
use std::net::{IpAddr, SocketAddr, SocketAddrV4};

use flow::{BackendId, ServiceId};
use wire::{FlowKey, Transport};

use crate::maglev::{Maglev, Member};
use crate::siphash::{self, Key};
use crate::{
    ActiveCounts, BackendSpec, Binding, By, Classes, Forwarding, ModeSpec, Moved, Pool, Precision,
    Scheduler, ServiceSpec, TableError, TunnelSpec, WorkerScheduleState, check_maglev_size,
    least_connections, round_robin, source_hash, toeplitz, weighted_round_robin,
};

// Fixed, so that several load balancers with the same backends agree.
const FLOW_KEY: Key = [0x4d61_676c_6576_2066, 0x6c6f_7720_6b65_7931];

/// One backend of one service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Backend {
    /// Its place among all backends.
    pub id: BackendId,
    /// The service it serves.
    pub service: ServiceId,
    /// Its address.
    pub address: IpAddr,
    /// Its port; `None`: the port that the client asked for.
    pub port: Option<u16>,
    /// Its share of new connections; 0: none, by the configuration or because it
    /// has been drained.
    pub weight: u16,
}

/// How packets of a service get to its backends.
#[derive(Clone, Debug)]
pub enum Mode {
    /// Destination towards the backend, source towards the client.
    Nat,
    /// Both, with a local endpoint from the pool.
    FullNat(Pool),
    /// As they are, to the backend's Ethernet address.
    Dsr,
    /// As they are, in a tunnel to the backend.
    Tunnel(TunnelSpec),
    /// As in mode `dsr`, and without connections: each packet alone decides.
    Stateless(By),
}

/// A service, ready to schedule.
#[derive(Clone, Debug)]
pub struct Service {
    id: ServiceId,
    name: String,
    vip: IpAddr,
    port: Option<u16>,
    proto: Transport,
    mode: Mode,
    scheduler: Scheduler,
    backends: Box<[Backend]>,
    /// Places in `backends` of those that have a weight.
    eligible: Box<[u16]>,
    maglev: Maglev,
    maglev_size: u32,
    /// By place: what the weight is while the backend isn't drained.
    configured: Box<[u16]>,
    /// Of a stateless service with a backend that takes clients.
    classes: Option<Classes>,
}

impl Service {
    /// Compiles `spec` as service `id`, whose backends are numbered from
    /// `first` on.
    pub(crate) fn compile(
        spec: &ServiceSpec,
        id: ServiceId,
        first: u16,
        pool_key: Key,
    ) -> Result<Self, TableError> {
        let backends = backends(spec, id, first)?;
        check_maglev_size(spec.maglev_size, backends.len())
            .map_err(|error| TableError::Maglev { service: spec.name.clone(), error })?;
        Ok(Self {
            id,
            name: spec.name.clone(),
            vip: spec.vip,
            port: spec.port,
            proto: spec.proto,
            mode: mode(spec, pool_key)?,
            scheduler: spec.scheduler,
            maglev: maglev(&backends, spec.maglev_size),
            maglev_size: spec.maglev_size,
            classes: classes(spec, first)?,
            configured: backends.iter().map(|backend| backend.weight).collect(),
            eligible: eligible(&backends),
            backends: backends.into_boxed_slice(),
        })
    }

    /// Its place in the table.
    #[must_use]
    pub const fn id(&self) -> ServiceId {
        self.id
    }

    /// Its name, for people.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The address that clients speak to.
    #[must_use]
    pub const fn vip(&self) -> IpAddr {
        self.vip
    }

    /// The port that clients speak to; `None`: any.
    #[must_use]
    pub const fn port(&self) -> Option<u16> {
        self.port
    }

    /// TCP or UDP.
    #[must_use]
    pub const fn proto(&self) -> Transport {
        self.proto
    }

    /// How its packets get to the backends.
    #[must_use]
    pub const fn mode(&self) -> &Mode {
        &self.mode
    }

    /// The pool of a full-NAT service.
    #[must_use]
    pub const fn pool(&self) -> Option<&Pool> {
        match &self.mode {
            Mode::FullNat(pool) => Some(pool),
            Mode::Nat | Mode::Dsr | Mode::Stateless(_) | Mode::Tunnel(_) => None,
        }
    }

    /// How packets of its connections get to their backend.
    #[must_use]
    pub const fn forwarding(&self) -> Forwarding {
        match self.mode {
            Mode::Nat | Mode::FullNat(_) => Forwarding::Rewrite,
            Mode::Dsr | Mode::Stateless(_) => Forwarding::Direct,
            Mode::Tunnel(_) => Forwarding::Tunnel,
        }
    }

    /// How its backends are chosen.
    #[must_use]
    pub const fn scheduler(&self) -> Scheduler {
        self.scheduler
    }

    /// Its backends, in the order of their ids, drained ones too.
    #[must_use]
    pub const fn backends(&self) -> &[Backend] {
        &self.backends
    }

    /// The backend for the new connection `flow`; `None` if all are drained,
    /// or if `state` was made for another table.
    #[must_use]
    pub fn schedule(
        &self,
        flow: &FlowKey,
        state: &mut WorkerScheduleState,
        active: &ActiveCounts,
    ) -> Option<BackendId> {
        let cursor = state.cursors.get_mut(usize::from(self.id.0))?;
        let weight = |place| self.at(place).map_or(0, |backend| backend.weight);
        let place = match self.scheduler {
            Scheduler::RoundRobin => round_robin::next(&self.eligible, cursor),
            Scheduler::WeightedRoundRobin => {
                let first = usize::from(self.backends.first()?.id.0);
                let credits = state.credits.get_mut(first..first + self.backends.len())?;
                weighted_round_robin::next(&self.eligible, weight, credits)
            }
            Scheduler::LeastConnections => {
                let load = |place| {
                    let connections = self.at(place).map_or(u32::MAX, |b| active.get(b.id));
                    (connections, weight(place))
                };
                least_connections::next(&self.eligible, load, cursor)
            }
            Scheduler::Maglev => return self.maglev(flow),
            Scheduler::SourceHash => source_hash::place(&self.maglev, flow),
        }?;
        self.at(place).map(|backend| backend.id)
    }

    /// The backend for `flow` without any state, the same on every load
    /// balancer with the same backends, whatever the scheduler: for packets
    /// whose connection is in no table. `None` if all are drained. Of stateless
    /// services it is what their classes say.
    #[must_use]
    pub fn maglev(&self, flow: &FlowKey) -> Option<BackendId> {
        if let Mode::Stateless(by) = self.mode {
            let classes = self.classes.as_ref()?;
            return match by {
                By::Source => classes.backend(flow.src().ip()),
                By::Hash => classes.of_bits(toeplitz::flow(flow)),
            };
        }
        let place = self.maglev.get(siphash::flow(FLOW_KEY, flow, 0))?;
        self.at(place).map(|backend| backend.id)
    }

    /// Whether it is balanced without any connection.
    #[must_use]
    pub const fn is_stateless(&self) -> bool {
        matches!(self.mode, Mode::Stateless(_))
    }

    /// What a stateless service gives to which backend; `None` if it isn't one,
    /// or no backend has a weight.
    #[must_use]
    pub const fn classes(&self) -> Option<&Classes> {
        self.classes.as_ref()
    }

    /// Whether `backend` is one of these and drained: not for want of a weight in
    /// the configuration, but since.
    #[must_use]
    pub fn is_drained(&self, backend: BackendId) -> bool {
        let drained = |(own, configured): (&Backend, &u16)| {
            own.id == backend && own.weight == 0 && *configured > 0
        };
        self.classes.as_ref().is_some_and(|classes| classes.is_drained(backend))
            || self.backends.iter().zip(&self.configured).any(drained)
    }

    /// Drains the backends at `address`, or gives them their weights back; what
    /// that moves, or `None` if it changes nothing.
    pub(crate) fn steer(&mut self, address: IpAddr, drain: bool) -> Option<Moved> {
        if let Some(classes) = &mut self.classes {
            let id = self.backends.iter().find(|own| own.address == address)?.id;
            return if drain { classes.drain(id) } else { classes.restore(id) };
        }
        let mut changed = false;
        for (own, configured) in self.backends.iter_mut().zip(&self.configured) {
            let weight = if drain { 0 } else { *configured };
            if own.address == address && own.weight != weight {
                (own.weight, changed) = (weight, true);
            }
        }
        changed.then(|| {
            self.eligible = eligible(&self.backends);
            self.maglev = maglev(&self.backends, self.maglev_size);
            Moved::default()
        })
    }

    /// Everything decided for the connection whose first packet is `flow` and
    /// which `backend` serves. `local` is the endpoint taken from the pool in
    /// mode full NAT, and `None` in all others.
    ///
    /// `None` if `flow` is not to this service, `backend` is not of it,
    /// `local` is missing or superfluous, or families differ.
    #[must_use]
    pub fn bind(
        &self,
        backend: BackendId,
        flow: &FlowKey,
        local: Option<SocketAddr>,
    ) -> Option<Binding> {
        let (client, vip) = (flow.src(), flow.dst());
        let port_fits = self.port.is_none_or(|port| port == vip.port());
        if vip.ip() != self.vip || !port_fits || flow.proto() != self.proto {
            return None;
        }
        let place = backend.0.checked_sub(self.backends.first()?.id.0)?;
        let chosen = self.at(place)?;
        let own = SocketAddr::new(chosen.address, chosen.port.unwrap_or(vip.port()));
        let (server, local) = match (&self.mode, local) {
            (Mode::Nat, None) => (own, client),
            (Mode::FullNat(_), Some(local)) if local.is_ipv4() == own.is_ipv4() => (own, local),
            (Mode::Dsr | Mode::Stateless(_) | Mode::Tunnel(_), None) => (vip, client),
            _ => return None,
        };
        let (proto, service, forwarding) = (self.proto, self.id, self.forwarding());
        Some(Binding { proto, service, backend, forwarding, client, vip, server, local })
    }

    /// Where `backend` serves a client that asks for `port`, in mode `nat` over
    /// IPv4: the server that [`Self::bind`] gives. `None` in all other modes, over
    /// IPv6, or if `backend` is not of this service.
    #[inline]
    #[must_use]
    pub fn nat_server(&self, backend: BackendId, port: u16) -> Option<SocketAddrV4> {
        let place = backend.0.checked_sub(self.backends.first()?.id.0)?;
        match (&self.mode, self.at(place)?) {
            (Mode::Nat, Backend { address: IpAddr::V4(address), port: own, .. }) => {
                Some(SocketAddrV4::new(*address, own.unwrap_or(port)))
            }
            _ => None,
        }
    }

    /// Lets weighted round robin make `steps` choices, less whole cycles.
    pub(crate) fn advance(&self, steps: usize, state: &mut WorkerScheduleState) {
        let cycle: usize = self.backends.iter().map(|b| usize::from(b.weight)).sum();
        let Some(first) = self.backends.first().map(|b| usize::from(b.id.0)) else { return };
        let Some(credits) = state.credits.get_mut(first..first + self.backends.len()) else {
            return;
        };
        let weight = |place| self.at(place).map_or(0, |backend| backend.weight);
        for _ in 0..steps.checked_rem(cycle).unwrap_or(0) {
            weighted_round_robin::next(&self.eligible, weight, credits);
        }
    }

    fn at(&self, place: u16) -> Option<&Backend> {
        self.backends.get(usize::from(place))
    }
}

fn backends(
    spec: &ServiceSpec,
    service: ServiceId,
    first: u16,
) -> Result<Vec<Backend>, TableError> {
    let mut backends: Vec<Backend> = Vec::with_capacity(spec.backends.len());
    for (offset, one) in spec.backends.iter().enumerate() {
        let id = u16::try_from(offset).ok().and_then(|offset| first.checked_add(offset));
        let id = BackendId(id.filter(|id| *id < u16::MAX).ok_or(TableError::TooManyBackends)?);
        check_backend(spec, one)?;
        let port = one.port.or(spec.port);
        if backends.iter().any(|other| other.address == one.address && other.port == port) {
            return Err(TableError::DuplicateBackend {
                service: spec.name.clone(),
                address: one.address,
                port,
            });
        }
        let (address, weight) = (one.address, one.weight);
        backends.push(Backend { id, service, address, port, weight });
    }
    Ok(backends)
}

/// The places of those that have a weight.
fn eligible(backends: &[Backend]) -> Box<[u16]> {
    (0..).zip(backends).filter(|(_, own)| own.weight > 0).map(|(place, _)| place).collect()
}

fn maglev(backends: &[Backend], size: u32) -> Maglev {
    let member = |own: &Backend| Member {
        address: own.address,
        port: own.port.unwrap_or(0),
        weight: own.weight,
    };
    Maglev::fill(size, &backends.iter().map(member).collect::<Vec<_>>())
}

fn check_backend(spec: &ServiceSpec, one: &BackendSpec) -> Result<(), TableError> {
    if let ModeSpec::Tunnel(TunnelSpec { source: Some(source), .. }) = spec.mode {
        if source.is_ipv4() != one.address.is_ipv4() {
            let (service, backend) = (spec.name.clone(), one.address);
            return Err(TableError::TunnelSource { service, address: source, backend });
        }
    }
    let translated = !matches!(spec.mode, ModeSpec::Tunnel(_));
    if translated && one.address.is_ipv4() != spec.vip.is_ipv4() {
        return Err(TableError::Family {
            service: spec.name.clone(),
            vip: spec.vip,
            backend: one.address,
        });
    }
    let keeps_port = match spec.mode {
        ModeSpec::Nat | ModeSpec::FullNat { .. } => false,
        ModeSpec::Dsr | ModeSpec::Stateless(_) | ModeSpec::Tunnel(_) => true,
    };
    match (spec.port, one.port) {
        (None, Some(port)) => {
            Err(TableError::BackendPort { service: spec.name.clone(), backend: one.address, port })
        }
        (_, Some(port)) if keeps_port => {
            Err(TableError::KeptPort { service: spec.name.clone(), backend: one.address, port })
        }
        _ => Ok(()),
    }
}

fn classes(spec: &ServiceSpec, first: u16) -> Result<Option<Classes>, TableError> {
    let weights: Vec<u16> = spec.backends.iter().map(|backend| backend.weight).collect();
    let stateless = matches!(spec.mode, ModeSpec::Stateless(_));
    if !stateless || weights.iter().all(|weight| *weight == 0) {
        return Ok(None);
    }
    let classes = Classes::assign(BackendId(first), &weights, Precision::default());
    classes.map(Some).ok_or_else(|| TableError::TooManyShares { service: spec.name.clone() })
}

fn mode(spec: &ServiceSpec, pool_key: Key) -> Result<Mode, TableError> {
    let pool = match &spec.mode {
        ModeSpec::Nat => return Ok(Mode::Nat),
        ModeSpec::Dsr => return Ok(Mode::Dsr),
        ModeSpec::Tunnel(tunnel) => return Ok(Mode::Tunnel(*tunnel)),
        ModeSpec::Stateless(by) => return Ok(Mode::Stateless(*by)),
        ModeSpec::FullNat { pool } => pool,
    };
    let missing = || TableError::EmptyPool {
        service: spec.name.clone(),
        pool: pool.name.clone(),
        vip: spec.vip,
    };
    Pool::new(pool, spec.vip, pool_key).map(Mode::FullNat).ok_or_else(missing)
}
