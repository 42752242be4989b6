//! One compiled service and its backends.
mod compile;
mod standing;
mod steering;

use std::net::{IpAddr, SocketAddr};

use flow::{BackendId, OnRemove, Refuse, Scheduler, ServiceId, StatelessKey};
use wire::toeplitz::{MICROSOFT_KEY, Toeplitz};
use wire::{FlowKey, Transport};

use self::compile::{backends, by_id, classes, eligible, maglev, pool, quic, revision};
use self::standing::Standing;
use crate::maglev::Maglev;
use crate::quic_lb::QuicAffinity;
use crate::registry::Lent;
use crate::routing::{Reads, Routing};
use crate::scheduler::Members;
use crate::siphash::{self, Key, Keys};
use crate::spec::Identity;
use crate::{
    Binding, Classes, Failover, Forwarding, ModeSpec, Opening, Pool, ServiceSpec, TableError,
    Timeouts, check_maglev_size,
};

pub use self::standing::Health;

/// The hash by which stateless services are spread. Its key is stated, so that
/// several load balancers agree, and a NIC that is given it.
static RSS: Toeplitz = Toeplitz::new(&MICROSOFT_KEY);

/// One backend of one service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Backend {
    /// Its id, the same in every configuration that has it.
    pub id: BackendId,
    /// How many backends have had the id, this one included.
    pub generation: u32,
    /// The service it serves.
    pub service: ServiceId,
    /// Its address.
    pub address: IpAddr,
    /// Its port; `None`: the port that the client asked for.
    pub port: Option<u16>,
    /// Its share of new connections; 0: none, by the configuration, because it has
    /// been drained or is down, or because it is a backup and others serve.
    pub weight: u16,
}

/// Backends that have left the configuration, while there are connections.
pub(crate) type Departed = Box<[Backend]>;

/// A service, ready to schedule.
#[derive(Clone, Debug)]
pub struct Service {
    id: ServiceId,
    generation: u32,
    revision: u64,
    on_remove: OnRemove,
    failover: Failover,
    refuse: Refuse,
    timeouts: Option<Timeouts>,
    name: String,
    vip: IpAddr,
    port: Option<u16>,
    proto: Transport,
    mode: ModeSpec,
    /// Of a full-NAT service.
    pool: Option<Pool>,
    scheduler: Scheduler,
    opening: Opening,
    backends: Box<[Backend]>,
    departed: Departed,
    /// Places in `backends` of those that have a weight.
    eligible: Box<[u16]>,
    /// Of the hash by which the Maglev table is looked up.
    hash_key: Key,
    maglev: Maglev,
    maglev_size: u32,
    /// Ids and places of the backends, by id.
    by_id: Box<[(BackendId, u16)]>,
    /// By place: what the weight follows from.
    standings: Box<[Standing]>,
    /// Of a service whose connection ids name backends.
    quic: Option<QuicAffinity>,
    /// Of a stateless service with a backend that takes clients.
    classes: Option<Classes>,
    /// Of a service that balances HTTP requests or TLS connections.
    routing: Option<Routing>,
}

impl Service {
    /// Compiles `spec` with the ids that were `lent` for it. What costs much is
    /// taken from `old`, the same service in the configuration before, where it
    /// hasn't changed.
    pub(crate) fn compile(
        spec: &ServiceSpec,
        lent: Lent,
        keys: &Keys,
        old: Option<&Self>,
    ) -> Result<Self, TableError> {
        let mut backends = backends(spec, &lent)?;
        let standings: Box<[Standing]> = spec.backends.iter().map(Standing::of).collect();
        if !spec.is_stateless() {
            let weights = standing::weights(&standings, spec.failover.all_down);
            backends.iter_mut().zip(weights).for_each(|(own, weight)| own.weight = weight);
        }
        check_maglev_size(spec.maglev_size, backends.len())
            .map_err(|error| TableError::Maglev { service: spec.name.clone(), error })?;
        let unchanged = old.filter(|old| *old.backends == *backends);
        let filled = unchanged.filter(|old| old.maglev_size == spec.maglev_size);
        let quic = quic(spec, &backends);
        Ok(Self {
            id: lent.id,
            generation: lent.generation,
            revision: revision(spec.scheduler, &backends),
            on_remove: spec.on_remove,
            failover: spec.failover,
            refuse: spec.refuse,
            timeouts: spec.timeouts,
            name: spec.name.clone(),
            vip: spec.vip,
            port: spec.port,
            proto: spec.proto,
            mode: spec.mode.clone(),
            pool: pool(spec, keys.pool)?,
            scheduler: spec.scheduler,
            opening: Opening::of(
                &spec.mode,
                spec.scheduler,
                quic.is_some() || spec.routes.is_some(),
            ),
            hash_key: match spec.scheduler {
                Scheduler::SourceHash => keys.client,
                _ => keys.flow,
            },
            maglev: filled
                .map_or_else(|| maglev(&backends, spec.maglev_size), |old| old.maglev.clone()),
            maglev_size: spec.maglev_size,
            quic,
            classes: classes(spec, &backends)?,
            routing: spec.routes.as_ref().map(|routes| Routing::new(routes, spec, &backends)),
            standings,
            eligible: eligible(&backends),
            by_id: by_id(&backends),
            backends: backends.into_boxed_slice(),
            departed: lent.departed,
        })
    }

    /// The service when it has left the configuration: only the way to the
    /// backends of its connections.
    pub(crate) fn depart(&self) -> Self {
        let all = self.backends.iter().chain(&self.departed);
        Self {
            departed: all.map(|own| Backend { weight: 0, ..*own }).collect(),
            backends: Box::default(),
            standings: Box::default(),
            eligible: Box::default(),
            by_id: Box::default(),
            maglev: maglev(&[], self.maglev_size),
            classes: None,
            quic: None,
            routing: None,
            ..self.clone()
        }
    }

    /// Without those departed backends of which `is_gone`.
    pub(crate) fn forget(&mut self, is_gone: &dyn Fn(&Backend) -> bool) {
        self.departed = self.departed.iter().filter(|own| !is_gone(own)).copied().collect();
    }

    /// Its id, the same in every configuration that has it.
    #[must_use]
    pub const fn id(&self) -> ServiceId {
        self.id
    }

    /// How many services have had the id, this one included.
    #[must_use]
    pub const fn generation(&self) -> u32 {
        self.generation
    }

    /// Changes when something does that its scheduler's memory depends on: the
    /// scheduler, the backends, their order or weights.
    #[must_use]
    pub const fn revision(&self) -> u64 {
        self.revision
    }

    /// What happens to the connections of a backend that leaves the configuration.
    #[must_use]
    pub const fn on_remove(&self) -> OnRemove {
        self.on_remove
    }

    /// What happens to the connections of `backend`, one of the configuration, because
    /// it is down; [`OnRemove::Keep`] if it isn't, or serves nevertheless.
    #[must_use]
    pub fn on_down(&self, backend: BackendId) -> OnRemove {
        let serves = self.of_id(backend).is_none_or(|own| own.weight > 0);
        if !serves && self.is_down(backend) { self.failover.connections } else { OnRemove::Keep }
    }

    /// The answer to packets that no backend takes.
    #[must_use]
    pub const fn refuse(&self) -> Refuse {
        self.refuse
    }

    /// How long its connections are kept without packets, if not as all others.
    #[must_use]
    pub const fn timeouts(&self) -> Option<&Timeouts> {
        self.timeouts.as_ref()
    }

    pub(crate) fn identity(&self) -> Identity<'_> {
        Identity {
            name: &self.name,
            vip: self.vip,
            port: self.port,
            proto: self.proto,
            mode: &self.mode,
            routed: self.reads(),
        }
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
    pub const fn mode(&self) -> &ModeSpec {
        &self.mode
    }

    /// The pool of a full-NAT service.
    #[must_use]
    pub const fn pool(&self) -> Option<&Pool> {
        self.pool.as_ref()
    }

    /// How packets of its connections get to their backend.
    #[must_use]
    pub const fn forwarding(&self) -> Forwarding {
        self.mode.forwarding()
    }

    /// How first packets of its connections are served.
    #[inline]
    #[must_use]
    pub const fn opening(&self) -> Opening {
        self.opening
    }

    /// How its backends are chosen.
    #[must_use]
    pub const fn scheduler(&self) -> Scheduler {
        self.scheduler
    }

    /// Its backends, in the order of the configuration, drained ones too.
    #[must_use]
    pub const fn backends(&self) -> &[Backend] {
        &self.backends
    }

    /// The backends that have left the configuration and may have connections.
    #[must_use]
    pub const fn departed(&self) -> &[Backend] {
        &self.departed
    }

    /// The backend for `flow` without any state, the same on every load balancer
    /// with the same backends: by consistent hashing over the client's address with
    /// the scheduler `source-hash`, over the 5-tuple with all others, for packets
    /// whose connection is in no table. `None` if all are drained. Of stateless
    /// services it is what their classes say.
    #[must_use]
    pub fn hashed(&self, flow: &FlowKey) -> Option<BackendId> {
        self.hashed_again(flow, 0)
    }

    /// The backend that hashing gives `flow` when it is asked for the time `again`.
    pub(crate) fn hashed_again(&self, flow: &FlowKey, again: u64) -> Option<BackendId> {
        if let ModeSpec::Stateless(by) = self.mode {
            let classes = self.classes.as_ref()?;
            return match by {
                StatelessKey::Source => classes.backend(flow.src().ip()),
                StatelessKey::Hash => classes.of_bits(RSS.flow(flow)),
                StatelessKey::Crc32 => classes.of_bits(flow.crc32()),
            };
        }
        let hash = match self.scheduler {
            Scheduler::SourceHash => siphash::address(self.hash_key, flow.src().ip(), again),
            _ => siphash::flow(self.hash_key, flow, again),
        };
        let place = self.maglev.get(hash)?;
        self.at(place).map(|backend| backend.id)
    }

    /// Whether it is balanced without any connection.
    #[must_use]
    pub const fn is_stateless(&self) -> bool {
        matches!(self.mode, ModeSpec::Stateless(_))
    }

    /// Whether it balances TLS connections by what their clients send first.
    #[must_use]
    pub fn is_tls(&self) -> bool {
        self.reads() == Some(Reads::Hellos)
    }

    /// What is read of its connections; `None`: they are in the connection table.
    #[must_use]
    pub fn reads(&self) -> Option<Reads> {
        self.routing.as_ref().map(Routing::reads)
    }

    /// Whether its connections take the L7 agent or the terminator: they are not in the
    /// connection table.
    #[inline]
    #[must_use]
    pub const fn is_routed(&self) -> bool {
        self.routing.is_some()
    }

    /// Whether its clients' requests are read, here or by the L7 agent.
    #[must_use]
    pub fn reads_requests(&self) -> bool {
        matches!(self.reads(), Some(Reads::Requests | Reads::SealedRequests))
    }

    /// Whether the L7 agent takes its packets.
    #[inline]
    #[must_use]
    pub fn is_spliced(&self) -> bool {
        self.reads().is_some_and(|reads| !reads.is_sealed())
    }

    /// Whether TCP and TLS of its clients end here.
    #[inline]
    #[must_use]
    pub fn is_terminated(&self) -> bool {
        self.reads().is_some_and(Reads::is_sealed)
    }

    pub(crate) const fn routing(&self) -> Option<&Routing> {
        self.routing.as_ref()
    }

    pub(crate) const fn hash_key(&self) -> Key {
        self.hash_key
    }

    /// Whether connection ids may name the backend of an unknown 5-tuple.
    #[must_use]
    pub const fn reads_connection_ids(&self) -> bool {
        self.quic.is_some()
    }

    /// The backend that the QUIC connection id in `packet`, a client's UDP payload,
    /// names, drained or not; `None` if it names none that is up.
    #[must_use]
    pub fn named_by_connection_id(&self, packet: &[u8]) -> Option<BackendId> {
        self.quic.as_ref()?.backend(packet).filter(|backend| !self.is_down(*backend))
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
        self.standing(backend).is_some_and(Standing::is_drained)
    }

    /// Whether `backend` is one of these and its health checks have taken it down.
    #[must_use]
    pub fn is_down(&self, backend: BackendId) -> bool {
        self.standing(backend).is_some_and(|own| own.health == Health::DOWN)
    }

    /// Whether `backend` is one of these and gets new connections.
    #[must_use]
    pub fn serves(&self, backend: BackendId) -> bool {
        let off = self.classes.as_ref().is_some_and(|classes| classes.is_drained(backend));
        !off && self.of_id(backend).is_some_and(|own| own.weight > 0)
    }

    fn standing(&self, backend: BackendId) -> Option<&Standing> {
        let found = self.by_id.binary_search_by_key(&backend, |(own, _)| *own).ok()?;
        self.standings.get(usize::from(self.by_id.get(found)?.1))
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
        let own = self.server(backend, vip.port())?;
        let (server, local) = match (&self.mode, local) {
            (ModeSpec::Nat, None) => (own, client),
            (ModeSpec::FullNat { .. }, Some(local)) if local.is_ipv4() == own.is_ipv4() => {
                (own, local)
            }
            (ModeSpec::Dsr | ModeSpec::Stateless(_) | ModeSpec::Tunnel(_), None) => (vip, client),
            _ => return None,
        };
        let (proto, service, forwarding) = (self.proto, self.id, self.forwarding());
        Some(Binding { proto, service, backend, forwarding, client, vip, server, local })
    }

    /// The backend's own address, and the port where it serves a client that asks
    /// for `port`; `None` if `backend` is not of this service.
    #[inline]
    #[must_use]
    pub fn server(&self, backend: BackendId, port: u16) -> Option<SocketAddr> {
        let chosen = self.of_id(backend)?;
        Some(SocketAddr::new(chosen.address, chosen.port.unwrap_or(port)))
    }

    /// What schedulers choose from.
    pub(crate) fn members(&self) -> Members<'_> {
        Members { backends: &self.backends, eligible: &self.eligible, maglev: &self.maglev }
    }

    pub(crate) fn at(&self, place: u16) -> Option<&Backend> {
        self.backends.get(usize::from(place))
    }

    /// The configured backend `id`. Ids of backends that came together follow
    /// each other, so the first guess is right until a reload changes them.
    #[inline]
    fn of_id(&self, id: BackendId) -> Option<&Backend> {
        let guess = id.0.wrapping_sub(self.backends.first()?.id.0);
        self.at(guess).filter(|own| own.id == id).or_else(|| {
            let found = self.by_id.binary_search_by_key(&id, |(own, _)| *own).ok()?;
            self.at(self.by_id.get(found)?.1)
        })
    }
}
