//! All services, compiled: what a worker asks about a packet.
mod steering;

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::ops::Range;

use flow::{BackendId, ServiceId};
use wire::{FlowKey, Transport};

pub use self::steering::SteerError;
use crate::index::{Endpoint, Index};
use crate::{
    ActiveCounts, Backend, MaglevSizeError, Scheduler, Service, ServiceSpec, WorkerScheduleState,
};

/// Why specs cannot be compiled to a [`ServiceTable`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TableError {
    /// Ids have 16 bits.
    #[error("there are more than 65535 services; leave some out")]
    TooManyServices,
    /// Ids have 16 bits.
    #[error("there are more than 65535 backends in all services; leave some out")]
    TooManyBackends,
    /// Two services would get the same packets.
    #[error(
        "services '{first}' and '{second}' have the same vip, port and protocol; change one of them"
    )]
    DuplicateService {
        /// The earlier service's name.
        first: String,
        /// The later service's name.
        second: String,
    },
    /// A backend is listed twice.
    #[error(
        "service '{service}' has the backend {address} twice (port {port:?}); give it once, with the sum of the weights"
    )]
    DuplicateBackend {
        /// The service's name.
        service: String,
        /// The backend's address.
        address: IpAddr,
        /// The backend's port.
        port: Option<u16>,
    },
    /// Addresses are rewritten, families are not translated.
    #[error("service '{service}': backend {backend} is not of the family of the vip {vip}")]
    Family {
        /// The service's name.
        service: String,
        /// Its VIP.
        vip: IpAddr,
        /// The backend's address.
        backend: IpAddr,
    },
    /// A service of any port keeps the port.
    #[error(
        "service '{service}' takes any port, so its backend {backend} must not have a port ({port})"
    )]
    BackendPort {
        /// The service's name.
        service: String,
        /// The backend's address.
        backend: IpAddr,
        /// The backend's port.
        port: u16,
    },
    /// Packets reach the backend as they are, with the VIP's port.
    #[error(
        "service '{service}' leaves packets as they are, so its backend {backend} must not have a port ({port}): it listens at the vip's"
    )]
    KeptPort {
        /// The service's name.
        service: String,
        /// The backend's address.
        backend: IpAddr,
        /// The backend's port.
        port: u16,
    },
    /// An outer header has one family.
    #[error(
        "service '{service}': the tunnel's source {address} is not of the family of the backend {backend}"
    )]
    TunnelSource {
        /// The service's name.
        service: String,
        /// The outer source address.
        address: IpAddr,
        /// The backend's address.
        backend: IpAddr,
    },
    /// Nothing to take source addresses from.
    #[error("service '{service}': pool '{pool}' has no address of the family of the vip {vip}")]
    EmptyPool {
        /// The service's name.
        service: String,
        /// The pool's name.
        pool: String,
        /// The service's VIP.
        vip: IpAddr,
    },
    /// More backends than classes of clients.
    #[error("service '{service}' has too many backends to be stateless: at most 4096 can share")]
    TooManyShares {
        /// The service's name.
        service: String,
    },
    /// The Maglev table's size is not right.
    #[error("service '{service}': maglev table size {error}")]
    Maglev {
        /// The service's name.
        service: String,
        /// What is wrong with it.
        error: MaglevSizeError,
    },
}

/// All services. Immutable: a change of the configuration compiles another.
#[derive(Clone, Debug)]
pub struct ServiceTable {
    services: Box<[Service]>,
    backends: Box<[Backend]>,
    lookup: Index<ServiceId>,
    /// Whether a service takes any port, so that a second look is worthwhile.
    any_port: bool,
    vips: Index<()>,
    pool_addresses: Index<()>,
    /// Both.
    own: Index<()>,
    by_backend: Index<(u32, u32)>,
    pairs: Box<[(ServiceId, BackendId)]>,
}

impl ServiceTable {
    /// Compiles `specs`. `pool_key` seeds the choice of full NAT's endpoints
    /// and should be random, or fixed where runs must be repeatable.
    ///
    /// # Errors
    /// The first thing that is wrong with a spec.
    pub fn compile(specs: &[ServiceSpec], pool_key: [u64; 2]) -> Result<Self, TableError> {
        let mut services: Vec<Service> = Vec::with_capacity(specs.len());
        let mut backends = Vec::new();
        let mut lookup = Index::default();
        for (place, spec) in specs.iter().enumerate() {
            let id = u16::try_from(place).ok().filter(|id| *id < u16::MAX);
            let id = ServiceId(id.ok_or(TableError::TooManyServices)?);
            let first = u16::try_from(backends.len()).map_err(|_| TableError::TooManyBackends)?;
            let service = Service::compile(spec, id, first, pool_key)?;
            let at = endpoint(spec.vip, spec.port.unwrap_or(0), Some(spec.proto));
            if let Some(other) = lookup.insert(at, id) {
                let first = services.get(usize::from(other.0)).map(|s| s.name().to_owned());
                let (first, second) = (first.unwrap_or_default(), spec.name.clone());
                return Err(TableError::DuplicateService { first, second });
            }
            backends.extend_from_slice(service.backends());
            services.push(service);
        }
        let (by_backend, pairs) = index_backends(&services);
        let vips = || services.iter().map(Service::vip);
        let pools =
            || services.iter().filter_map(Service::pool).flat_map(|pool| pool.addresses()).copied();
        Ok(Self {
            any_port: services.iter().any(|service| service.port().is_none()),
            vips: addresses(vips()),
            pool_addresses: addresses(pools()),
            own: addresses(vips().chain(pools())),
            services: services.into_boxed_slice(),
            backends: backends.into_boxed_slice(),
            lookup,
            by_backend,
            pairs,
        })
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

    /// [`Self::lookup`] of a packet to `address` and `port`.
    #[inline]
    #[must_use]
    pub fn lookup_v4(&self, address: Ipv4Addr, port: u16, proto: Transport) -> Option<&Service> {
        let at = |port| endpoint(IpAddr::V4(address), port, Some(proto));
        let id = match self.lookup.get(at(port)) {
            None if self.any_port => self.lookup.get(at(0)),
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

    /// The service `id`.
    #[inline]
    #[must_use]
    pub fn service(&self, id: ServiceId) -> Option<&Service> {
        self.services.get(usize::from(id.0))
    }

    /// The backend `id`.
    #[inline]
    #[must_use]
    pub fn backend(&self, id: BackendId) -> Option<&Backend> {
        self.backends.get(usize::from(id.0))
    }

    /// All services, in the order of their ids, which is that of the specs.
    #[must_use]
    pub const fn services(&self) -> &[Service] {
        &self.services
    }

    /// All backends, in the order of their ids.
    #[must_use]
    pub const fn backends(&self) -> &[Backend] {
        &self.backends
    }

    /// The services that have a backend at `server` whose answers come from
    /// there, with that backend: first those of exactly that port, then those of any port, each in the order
    /// of their ids.
    #[inline]
    #[must_use]
    pub fn by_backend(&self, proto: Transport, server: SocketAddr) -> &[(ServiceId, BackendId)] {
        let exact = self.by_backend.get(endpoint(server.ip(), server.port(), Some(proto)));
        exact
            .or_else(|| self.by_backend.get(endpoint(server.ip(), 0, Some(proto))))
            .and_then(|(from, to)| self.pairs.get(from as usize..to as usize))
            .unwrap_or_default()
    }

    /// Counters of open connections for this table's backends, all zero.
    #[must_use]
    pub fn active_counts(&self) -> ActiveCounts {
        ActiveCounts::new(self.backends.len())
    }

    /// The schedulers' memory for worker `worker`. Different workers start at
    /// different places, so that together they don't favour the first backend.
    #[must_use]
    pub fn worker_state(&self, worker: usize) -> WorkerScheduleState {
        let start = u32::try_from(worker).unwrap_or(0);
        let mut state = WorkerScheduleState {
            cursors: vec![start; self.services.len()].into_boxed_slice(),
            credits: vec![0; self.backends.len()].into_boxed_slice(),
        };
        for service in &self.services {
            if service.scheduler() == Scheduler::WeightedRoundRobin {
                service.advance(worker, &mut state);
            }
        }
        state
    }
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
/// An endpoint of a certain port has the pairs of any port behind its own.
type Pairs = Box<[(ServiceId, BackendId)]>;

fn index_backends(services: &[Service]) -> (Index<(u32, u32)>, Pairs) {
    let mut groups: BTreeMap<(IpAddr, Transport, u16), Vec<_>> = BTreeMap::new();
    // Of one way services no answer comes from a backend's own address.
    for service in services.iter().filter(|service| !service.forwarding().is_one_way()) {
        for backend in service.backends() {
            let at = (backend.address, service.proto(), backend.port.unwrap_or(0));
            groups.entry(at).or_default().push((service.id(), backend.id));
        }
    }
    let (mut index, mut pairs) = (Index::default(), Vec::new());
    for ((address, proto, port), own) in &groups {
        let any = groups.get(&(*address, *proto, 0)).filter(|_| *port != 0);
        let range: Range<usize> = {
            let from = pairs.len();
            pairs.extend(own.iter().chain(any.into_iter().flatten()).copied());
            from..pairs.len()
        };
        // At most every pair twice, so at most 2^17 of them.
        let range = (range.start as u32, range.end as u32);
        index.insert(endpoint(*address, *port, Some(*proto)), range);
    }
    (index, pairs.into_boxed_slice())
}
