//! The tunnels to backends, compiled.
use service::{BackendId, Mode, Service, ServiceTable};
use wire::Encap;

use crate::{Interfaces, RouteTable};

/// The outer header of every backend that is reached through a tunnel.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tunnels(Box<[Option<Encap>]>);

impl Tunnels {
    /// The tunnels to the backends of `services`. Where none is given, the
    /// outer source is the address of the interface that leads there; without
    /// route or address there is no tunnel.
    #[must_use]
    pub fn new(services: &ServiceTable, interfaces: &Interfaces, routes: &RouteTable) -> Self {
        let tunnel = |service: &Service, address| {
            let Mode::Tunnel(spec) = service.mode() else { return None };
            let source = spec.source.or_else(|| {
                let (interface, _) = routes.next(address)?;
                interfaces.get(interface)?.source_for(address)
            });
            Encap::new(spec.tunnel, source?, address, spec.ttl)
        };
        let all = services.backends().iter();
        Self(all.map(|b| tunnel(services.service(b.service)?, b.address)).collect())
    }

    /// The tunnel to `backend`.
    #[inline]
    #[must_use]
    pub fn get(&self, backend: BackendId) -> Option<&Encap> {
        self.0.get(usize::from(backend.0))?.as_ref()
    }
}
