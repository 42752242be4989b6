//! All services, compiled: what a worker asks about a packet.
mod sharing;
mod steering;

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};
use std::ops::Range;

use flow::{BackendId, OnRemove, ServiceId};
use wire::{FlowKey, Transport};

pub use self::steering::SteerError;
use crate::index::{Endpoint, Index};
use crate::siphash::Keys;
use crate::{Backend, Key128, Registry, Service, ServiceSpec, TableError};

/// All services. Immutable: a change of the configuration compiles another.
#[derive(Clone, Debug)]
pub struct ServiceTable {
    keys: Keys,
    /// Those of the configuration first, in its order, then departed ones.
    services: Box<[Service]>,
    /// How many of them are of the configuration.
    configured: usize,
    /// By id: the place in `services`.
    places: Box<[u16]>,
    /// Backends of the configuration, in its order.
    backends: Box<[Backend]>,
    /// Backends that have left it and may have connections.
    departed: Box<[Backend]>,
    /// By id: the place in `backends`, and behind its end in `departed`.
    backend_places: Box<[u32]>,
    lookup: Index<ServiceId>,
    /// Whether a service takes any port, so that a second look is worthwhile.
    any_port: bool,
    vips: Index<()>,
    pool_addresses: Index<()>,
    /// Both.
    own: Index<()>,
    by_backend: Index<(u32, u32)>,
    pairs: Box<[(ServiceId, BackendId)]>,
    /// Whether an endpoint has several pairs.
    shares: bool,
    /// Whether a backend that is down gives its connections up.
    sheds: bool,
}

impl ServiceTable {
    /// Compiles `specs`; ids are places in it. `pool_key` seeds the choice of
    /// full NAT's endpoints and should be random, or fixed where runs must be
    /// repeatable.
    ///
    /// # Errors
    /// The first thing that is wrong with a spec.
    pub fn compile(specs: &[ServiceSpec], pool_key: [u64; 2]) -> Result<Self, TableError> {
        Self::empty(pool_key, None).successor(specs, &mut Registry::default())
    }

    /// A table without services, to which others succeed. `pool_key` is that of
    /// [`Self::compile`]; `fleet` is the key of the hash that chooses backends, the
    /// same on all load balancers of a fleet, or `None` for a public one.
    #[must_use]
    pub fn empty(pool_key: [u64; 2], fleet: Option<Key128>) -> Self {
        Self::index(Vec::new(), 0, Keys::new(pool_key, fleet))
    }

    /// The table of `specs` that takes the place of this one. What is in both
    /// has the same ids, and what was drained stays so. Services and backends
    /// that are not in `specs` are departed: they get no packet but those of their
    /// connections. `registry` must be the one that lent this table's ids.
    ///
    /// # Errors
    /// The first thing that is wrong with a spec; then `registry` is as before.
    pub fn successor(
        &self,
        specs: &[ServiceSpec],
        registry: &mut Registry,
    ) -> Result<Self, TableError> {
        let mut lender = registry.clone();
        let mut services: Vec<Service> = Vec::with_capacity(specs.len());
        let mut by_name: BTreeMap<&str, Vec<&Service>> = BTreeMap::new();
        for old in self.all_services() {
            by_name.entry(old.name()).or_default().push(old);
        }
        for spec in specs {
            let named = by_name.get(spec.name.as_str()).into_iter().flatten();
            let old = named.copied().find(|old| spec.identity().succeeds(&old.identity()));
            let lent = lender.lend(spec, old)?;
            services.push(Service::compile(spec, lent, &self.keys, old)?);
        }
        check_distinct(&services)?;
        let configured = services.len();
        let kept: BTreeSet<ServiceId> = services.iter().map(Service::id).collect();
        let gone = self.all_services().filter(|old| !kept.contains(&old.id()));
        services.extend(gone.map(Service::depart));
        let mut table = Self::index(services, configured, self.keys);
        table.keep_drained(self);
        *registry = lender;
        Ok(table)
    }

    /// A table without those departed backends of which `is_gone`, and without
    /// departed services that have no backend then. All else is the same.
    #[must_use]
    pub fn without(&self, is_gone: &dyn Fn(&Backend) -> bool) -> Self {
        let mut services = self.services.to_vec();
        services.iter_mut().for_each(|service| service.forget(is_gone));
        let mut place = 0;
        services.retain(|service| {
            place += 1;
            place <= self.configured || !service.departed().is_empty()
        });
        Self::index(services, self.configured, self.keys)
    }

    /// Makes everything by which `services` are found.
    fn index(services: Vec<Service>, configured: usize, keys: Keys) -> Self {
        let own = services.get(..configured).unwrap_or_default();
        let mut lookup = Index::default();
        for service in own {
            let port = service.port().unwrap_or(0);
            lookup.insert(endpoint(service.vip(), port, Some(service.proto())), service.id());
        }
        let backends: Vec<Backend> = own.iter().flat_map(Service::backends).copied().collect();
        let departed: Vec<Backend> = services.iter().flat_map(Service::departed).copied().collect();
        let (by_backend, pairs, shares) = index_backends(own);
        let vips = || own.iter().map(Service::vip);
        // Of departed services too: backends answer to these addresses.
        let pools =
            || services.iter().filter_map(Service::pool).flat_map(|pool| pool.addresses()).copied();
        let sheds = |service: &Service| {
            service.backends().iter().any(|own| !service.on_down(own.id).is_keep())
        };
        Self {
            keys,
            configured,
            sheds: own.iter().any(sheds),
            any_port: own.iter().any(|service| service.port().is_none()),
            vips: addresses(vips()),
            pool_addresses: addresses(pools()),
            own: addresses(vips().chain(pools())),
            places: places(services.iter().map(|service| service.id().0), NOWHERE),
            backend_places: places(backends.iter().chain(&departed).map(|b| b.id.0), u32::MAX),
            services: services.into_boxed_slice(),
            backends: backends.into_boxed_slice(),
            departed: departed.into_boxed_slice(),
            lookup,
            shares,
            by_backend,
            pairs,
        }
    }

    /// The service that a packet with 5-tuple `flow` from a client is for: the
    /// one of exactly that port, else the one of any port.
    #[inline]
    #[must_use]
    pub fn lookup(&self, flow: &FlowKey) -> Option<&Service> {
        let (dst, proto) = (flow.dst(), Some(flow.proto()));
        let exact = self.lookup.get(endpoint(dst.ip(), dst.port(), proto));
        let id = match exact {
            None if self.any_port => self.lookup.get(endpoint(dst.ip(), 0, proto)),
            found => found,
        }?;
        self.service(id)
    }

    /// Whether `address` is the VIP of a service or in the pool of one.
    #[inline]
    #[must_use]
    pub fn has(&self, address: IpAddr) -> bool {
        self.own.get(endpoint(address, 0, None)).is_some()
    }

    /// Whether `address` is the VIP of a service.
    #[inline]
    #[must_use]
    pub fn is_vip(&self, address: IpAddr) -> bool {
        self.vips.get(endpoint(address, 0, None)).is_some()
    }

    /// Whether `address` is in the pool of a full-NAT service.
    #[inline]
    #[must_use]
    pub fn is_pool_address(&self, address: IpAddr) -> bool {
        self.pool_addresses.get(endpoint(address, 0, None)).is_some()
    }

    /// The service `id`, departed or not.
    #[inline]
    #[must_use]
    pub fn service(&self, id: ServiceId) -> Option<&Service> {
        self.services.get(usize::from(*self.places.get(usize::from(id.0))?))
    }

    /// The backend `id`, departed or not.
    #[inline]
    #[must_use]
    pub fn backend(&self, id: BackendId) -> Option<&Backend> {
        let place = *self.backend_places.get(usize::from(id.0))? as usize;
        let departed = || self.departed.get(place.checked_sub(self.backends.len())?);
        self.backends.get(place).or_else(departed)
    }

    /// The services of the configuration, in its order.
    #[must_use]
    pub fn services(&self) -> &[Service] {
        self.services.get(..self.configured).unwrap_or_default()
    }

    /// The services that have left the configuration and may have connections.
    #[must_use]
    pub fn departed_services(&self) -> &[Service] {
        self.services.get(self.configured..).unwrap_or_default()
    }

    /// Services of the configuration and departed ones.
    pub(crate) fn all_services(&self) -> impl Iterator<Item = &Service> {
        self.services.iter()
    }

    /// The backends of the configuration, in its order.
    #[must_use]
    pub const fn backends(&self) -> &[Backend] {
        &self.backends
    }

    /// The backends that have left the configuration and may have connections.
    #[must_use]
    pub const fn departed(&self) -> &[Backend] {
        &self.departed
    }

    /// What happens to the connections of `backend`, which may have left the
    /// configuration or be down: they stay where it has not, and is not.
    #[must_use]
    pub fn on_remove(&self, backend: BackendId) -> OnRemove {
        let place = self.backend_places.get(usize::from(backend.0)).map(|place| *place as usize);
        let Some(place) = place else { return OnRemove::Keep };
        if let Some(own) = self.backends.get(place) {
            let service = self.service(own.service).filter(|_| self.sheds);
            return service.map_or(OnRemove::Keep, |service| service.on_down(backend));
        }
        let departed = place.checked_sub(self.backends.len());
        let own = departed.and_then(|place| self.departed.get(place));
        let service = own.and_then(|own| self.service(own.service));
        service.map_or(OnRemove::Keep, Service::on_remove)
    }

    /// Whether any backend gives its connections up: [`Self::on_remove`] is not
    /// [`OnRemove::Keep`] for all of them.
    #[must_use]
    pub fn gives_up_connections(&self) -> bool {
        self.sheds || self.departed.iter().any(|own| !self.on_remove(own.id).is_keep())
    }

    /// Backends of the configuration and departed ones.
    pub fn all_backends(&self) -> impl Iterator<Item = &Backend> {
        self.backends.iter().chain(&self.departed)
    }

    /// The services that have a backend at `server` whose answers come from
    /// there, with that backend: first those of exactly that port, then those of
    /// any port, each in the order of the configuration.
    #[inline]
    #[must_use]
    pub fn by_backend(&self, proto: Transport, server: SocketAddr) -> &[(ServiceId, BackendId)] {
        let exact = self.by_backend.get(endpoint(server.ip(), server.port(), Some(proto)));
        exact
            .or_else(|| self.by_backend.get(endpoint(server.ip(), 0, Some(proto))))
            .and_then(|(from, to)| self.pairs.get(from as usize..to as usize))
            .unwrap_or_default()
    }
}

/// No place.
const NOWHERE: u16 = u16::MAX;

/// The places of `ids`, by id; `nowhere` for ids that are not among them.
fn places<P: Copy + TryFrom<usize>>(
    ids: impl Iterator<Item = u16> + Clone,
    nowhere: P,
) -> Box<[P]> {
    let size = ids.clone().max().map_or(0, |most| usize::from(most) + 1);
    let mut places = vec![nowhere; size].into_boxed_slice();
    for (place, id) in ids.enumerate() {
        if let (Some(slot), Ok(place)) = (places.get_mut(usize::from(id)), P::try_from(place)) {
            *slot = place;
        }
    }
    places
}

/// No two services get the same packets.
fn check_distinct(services: &[Service]) -> Result<(), TableError> {
    let mut names: Index<u32> = Index::default();
    for (place, service) in (0..).zip(services) {
        let at = endpoint(service.vip(), service.port().unwrap_or(0), Some(service.proto()));
        let Some(other) = names.insert(at, place) else { continue };
        let first = services.get(other as usize).map(|other| other.name().to_owned());
        let (first, second) = (first.unwrap_or_default(), service.name().to_owned());
        return Err(TableError::DuplicateService { first, second });
    }
    Ok(())
}

const fn endpoint(address: IpAddr, port: u16, proto: Option<Transport>) -> Endpoint {
    let proto = match proto {
        Some(proto) => proto.number(),
        None => 0,
    };
    Endpoint { address, port, proto }
}

fn addresses(all: impl Iterator<Item = IpAddr>) -> Index<()> {
    let mut index = Index::default();
    for address in all {
        index.insert(endpoint(address, 0, None), ());
    }
    index
}

/// Which services have a backend at an endpoint: ranges of a list of pairs.
/// An endpoint of a certain port has the pairs of any port behind its own. Also
/// whether a range has several.
type Pairs = Box<[(ServiceId, BackendId)]>;

fn index_backends(services: &[Service]) -> (Index<(u32, u32)>, Pairs, bool) {
    let mut groups: BTreeMap<(IpAddr, Transport, u16), Vec<_>> = BTreeMap::new();
    // Of one way services no answer comes from a backend's own address.
    // Of services of requests the L7 agent and the terminator know which answers they expect.
    let answers = |service: &&Service| !service.forwarding().is_one_way() && !service.is_routed();
    for service in services.iter().filter(answers) {
        for backend in service.backends() {
            let at = (backend.address, service.proto(), backend.port.unwrap_or(0));
            groups.entry(at).or_default().push((service.id(), backend.id));
        }
    }
    let (mut index, mut pairs, mut shares) = (Index::default(), Vec::new(), false);
    for ((address, proto, port), own) in &groups {
        let any = groups.get(&(*address, *proto, 0)).filter(|_| *port != 0);
        let range: Range<usize> = {
            let from = pairs.len();
            pairs.extend(own.iter().chain(any.into_iter().flatten()).copied());
            from..pairs.len()
        };
        shares |= range.len() > 1;
        // At most every pair twice, so at most 2^17 of them.
        let range = (range.start as u32, range.end as u32);
        index.insert(endpoint(*address, *port, Some(*proto)), range);
    }
    (index, pairs.into_boxed_slice(), shares)
}
