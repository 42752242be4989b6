//! The tunnels to backends, compiled.
use std::collections::BTreeMap;
use std::net::IpAddr;

use flow::BackendId;
use l3::{Interfaces, RouteTable};
use service::{ModeSpec, Service, ServiceTable};
use wire::Encap;

/// The outer header of every backend that is reached through a tunnel.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tunnels {
    /// By id, departed ones included: their connections still go there.
    by_backend: Box<[Option<Encap>]>,
    /// By outer source and destination. Of several between the same ends one.
    by_ends: BTreeMap<(IpAddr, IpAddr), Encap>,
}

impl Tunnels {
    /// The tunnels to the backends of `services`. Where none is given, the
    /// outer source is the address of the interface that leads there; without
    /// route or address there is no tunnel.
    #[must_use]
    pub fn new(services: &ServiceTable, interfaces: &Interfaces, routes: &RouteTable) -> Self {
        let mut by_ends = BTreeMap::new();
        let mut tunnel = |service: &Service, address| {
            let ModeSpec::Tunnel(spec) = service.mode() else { return None };
            let source = spec.source.or_else(|| {
                let (interface, _) = routes.next(address)?;
                interfaces.get(interface)?.source_for(address)
            })?;
            let encap = Encap::new(spec.tunnel, source, address, spec.ttl)?;
            by_ends.insert((source, address), encap);
            Some(encap)
        };
        let mut by_backend = Vec::new();
        for own in services.all_backends() {
            let place = usize::from(own.id.0);
            if by_backend.len() <= place {
                by_backend.resize(place + 1, None);
            }
            let service = services.service(own.service);
            if let (Some(slot), Some(service)) = (by_backend.get_mut(place), service) {
                *slot = tunnel(service, own.address);
            }
        }
        Self { by_backend: by_backend.into_boxed_slice(), by_ends }
    }

    /// The tunnel to `backend`.
    #[inline]
    #[must_use]
    pub fn get(&self, backend: BackendId) -> Option<&Encap> {
        self.by_backend.get(usize::from(backend.0))?.as_ref()
    }

    /// A tunnel from `source` to `destination`.
    #[must_use]
    pub fn between(&self, source: IpAddr, destination: IpAddr) -> Option<&Encap> {
        self.by_ends.get(&(source, destination))
    }
}
