//! The parts of a service, from its spec.
use flow::{BackendId, Scheduler};

use super::Backend;
use crate::maglev::{Maglev, Member};
use crate::quic_lb::QuicAffinity;
use crate::registry::Lent;
use crate::siphash::{self, Key};
use crate::{BackendSpec, Classes, ModeSpec, Pool, Precision, ServiceSpec, TableError, TunnelSpec};

/// The backends of `spec` with the ids that were `lent` for them.
pub(super) fn backends(spec: &ServiceSpec, lent: &Lent) -> Result<Vec<Backend>, TableError> {
    let mut backends: Vec<Backend> = Vec::with_capacity(spec.backends.len());
    for (one, (id, generation)) in spec.backends.iter().zip(&lent.backends) {
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
        let (id, generation, service) = (*id, *generation, lent.id);
        backends.push(Backend { id, generation, service, address, port, weight });
    }
    Ok(backends)
}

/// A fingerprint of what a scheduler's memory depends on; never 0.
pub(super) fn revision(scheduler: Scheduler, backends: &[Backend]) -> u64 {
    let own = |own: &Backend| {
        u64::from(own.generation) << 32 | u64::from(own.id.0) << 16 | u64::from(own.weight)
    };
    let words: Vec<u64> = [scheduler as u64].into_iter().chain(backends.iter().map(own)).collect();
    siphash::hash([0, 0], &words).max(1)
}

/// The places of those that have a weight.
pub(super) fn eligible(backends: &[Backend]) -> Box<[u16]> {
    (0..).zip(backends).filter(|(_, own)| own.weight > 0).map(|(place, _)| place).collect()
}

/// The ids and places of `backends`, by id.
pub(super) fn by_id(backends: &[Backend]) -> Box<[(BackendId, u16)]> {
    let mut by_id: Vec<_> = backends.iter().map(|own| own.id).zip(0..).collect();
    by_id.sort_unstable();
    by_id.into()
}

/// The Maglev table of `backends`.
pub(super) fn maglev(backends: &[Backend], size: u32) -> Maglev {
    let member = |own: &Backend| Member {
        address: own.address,
        port: own.port.unwrap_or(0),
        weight: own.weight,
    };
    Maglev::fill(size, &backends.iter().map(member).collect::<Vec<_>>())
}

/// Whether `one` can serve `spec`: family, port and tunnel agree.
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

/// Which backend has which classes of clients, if the service is stateless and any
/// backend takes clients.
pub(super) fn classes(
    spec: &ServiceSpec,
    backends: &[Backend],
) -> Result<Option<Classes>, TableError> {
    let stateless = matches!(spec.mode, ModeSpec::Stateless(_));
    if !stateless || backends.iter().all(|own| own.weight == 0) {
        return Ok(None);
    }
    // Which backend has which class must not depend on the order in the file.
    let mut sorted: Vec<&Backend> = backends.iter().collect();
    sorted.sort_by_key(|own| own.address);
    let ids: Vec<BackendId> = sorted.iter().map(|own| own.id).collect();
    let weights: Vec<u16> = sorted.iter().map(|own| own.weight).collect();
    let classes = Classes::assign(&ids, &weights, Precision::default());
    classes.map(Some).ok_or_else(|| TableError::TooManyShares { service: spec.name.clone() })
}

/// Which backends connection ids name, if they name any.
pub(super) fn quic(spec: &ServiceSpec, backends: &[Backend]) -> Option<QuicAffinity> {
    let named = spec.backends.iter().zip(backends);
    let named = named.flat_map(|(one, own)| one.server_ids.iter().map(|id| (*id, own.id)));
    (!spec.quic.is_empty()).then(|| QuicAffinity::new(&spec.quic, named.collect()))
}

/// The pool of a full-NAT service.
pub(super) fn pool(spec: &ServiceSpec, pool_key: Key) -> Result<Option<Pool>, TableError> {
    let ModeSpec::FullNat { pool } = &spec.mode else { return Ok(None) };
    let missing = || TableError::EmptyPool {
        service: spec.name.clone(),
        pool: pool.name.clone(),
        vip: spec.vip,
    };
    Pool::new(pool, spec.vip, pool_key).map(Some).ok_or_else(missing)
}
