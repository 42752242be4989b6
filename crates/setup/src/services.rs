//! Services and pools.
use config::{Config, Mode};
use service::{BackendSpec, ModeSpec, PoolSpec, ServiceSpec};

use crate::SetupError;

/// The services in the order of the configuration.
pub(crate) fn specs(config: &Config) -> Result<Vec<ServiceSpec>, SetupError> {
    config.services.iter().map(|service| spec(config, service)).collect()
}

fn spec(config: &Config, service: &config::Service) -> Result<ServiceSpec, SetupError> {
    Ok(ServiceSpec {
        name: service.name.clone(),
        vip: service.vip,
        port: service.port,
        proto: service.protocol.into(),
        mode: mode(config, service)?,
        scheduler: service.scheduler.into(),
        maglev_size: service.maglev_size,
        backends: service
            .backends
            .iter()
            .map(|backend| BackendSpec {
                address: backend.address,
                port: backend.port.or(service.port),
                weight: backend.weight,
            })
            .collect(),
    })
}

fn mode(config: &Config, service: &config::Service) -> Result<ModeSpec, SetupError> {
    if service.mode == Mode::Nat {
        return Ok(ModeSpec::Nat);
    }
    let name = service.pool.clone().unwrap_or_default();
    let found = config.pools.iter().find(|pool| pool.name == name);
    let pool = found.ok_or_else(|| SetupError::Unknown { what: "pool", name })?;
    Ok(ModeSpec::FullNat {
        pool: PoolSpec {
            name: pool.name.clone(),
            addresses: pool.addresses.clone(),
            ports: pool.ports.clone(),
        },
    })
}
