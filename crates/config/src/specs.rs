//! From the file's services to the service table.
use flow::{Mode, Protocol};
use service::{
    BackendSpec, Failover, ModeSpec, PoolSpec, QuicIds, Reads, RoutesSpec, ServiceSpec,
    ServiceTable, TableError, TunnelSpec,
};

use crate::{Config, HttpRoute, Quic, Service, Sticky};

/// Hops that an outer packet may take if nothing is given.
const TTL: u8 = 64;

impl Config {
    /// The services as specs, in the order of the file.
    #[must_use]
    pub fn service_specs(&self) -> Vec<ServiceSpec> {
        self.services.iter().map(|service| self.spec(service)).collect()
    }

    /// The compiled service table; `pool_key` is that of
    /// [`ServiceTable::compile`].
    ///
    /// # Errors
    /// None for a configuration that [`Config::load`] or [`Config::parse`]
    /// gave; for one made by hand, the first thing that is wrong.
    pub fn service_table(&self, pool_key: [u64; 2]) -> Result<ServiceTable, TableError> {
        ServiceTable::compile(&self.service_specs(), pool_key)
    }

    fn spec(&self, service: &Service) -> ServiceSpec {
        let backends = service.backends.iter();
        ServiceSpec {
            name: service.name.clone(),
            vip: service.vip,
            port: service.port,
            proto: service.protocol.transport(),
            mode: self.mode(service),
            scheduler: service.scheduler,
            maglev_size: service.maglev_size,
            on_remove: service.on_remove,
            failover: service.health.as_ref().map_or_else(Failover::default, |health| Failover {
                connections: health.on_down,
                all_down: health.all_down,
            }),
            refuse: service.refuse,
            timeouts: (!service.timeouts.is_default())
                .then(|| self.conntrack.timeouts(&service.timeouts)),
            quic: service.quic.iter().map(quic_ids).collect(),
            routes: service.is_routed().then(|| RoutesSpec {
                rules: service.routes.iter().map(HttpRoute::spec).collect(),
                rebalance: service.rebalance,
                reads: match service.protocol {
                    Protocol::Http => Reads::Requests,
                    Protocol::Https => Reads::SealedRequests,
                    Protocol::Tls if service.terminate => Reads::SealedBytes,
                    Protocol::Tls => Reads::Hellos,
                    Protocol::Tcp | Protocol::Udp => Reads::Nothing,
                },
                proxy_header: service.proxy_protocol.is_some(),
                requests: service.request_headers.changes(),
                responses: service.response_headers.changes(),
                sticky: service.sticky.as_ref().map(Sticky::spec),
            }),
            backends: backends
                .map(|b| BackendSpec {
                    address: b.address,
                    port: b.port,
                    weight: b.weight,
                    backup: b.backup,
                    server_ids: b.server_ids.clone(),
                    group: b.group.clone(),
                })
                .collect(),
        }
    }

    /// A pool that isn't there is empty, which the table refuses.
    fn mode(&self, service: &Service) -> ModeSpec {
        if let Some(tunnel) = service.tunnel() {
            let ttl = service.tunnel_ttl.unwrap_or(TTL);
            return ModeSpec::Tunnel(TunnelSpec { tunnel, source: service.tunnel_source, ttl });
        }
        match service.mode {
            Mode::Nat => return ModeSpec::Nat,
            Mode::Dsr if service.stateless => return ModeSpec::Stateless(service.by),
            Mode::Dsr => return ModeSpec::Dsr,
            _ => {}
        }
        let name = service.pool.clone().unwrap_or_default();
        let pool = self.pools.iter().find(|pool| pool.name == name);
        let (addresses, ports) = pool
            .map_or((Vec::new(), 1..=65535), |pool| (pool.addresses.clone(), pool.ports.clone()));
        ModeSpec::FullNat { pool: PoolSpec { name, addresses, ports } }
    }
}

const fn quic_ids(&Quic { rotation, server_id_length, nonce_length, key }: &Quic) -> QuicIds {
    QuicIds { rotation, server_id_length, nonce_length, key }
}
