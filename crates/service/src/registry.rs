//! Who has which id, over all configurations of a process.
//!
//! Records, marks, queue meanings and tunnels name services and backends by
//! their ids, for longer than a configuration lasts. So an id belongs to one
//! service or backend from its first configuration on until it has been removed
//! *and* its last connection is gone: until then it is departed. Only then
//! [`Registry::release`] makes the id free for another.
use std::net::IpAddr;

use flow::{BackendId, ServiceId};
use wire::Transport;

use crate::service::Departed;
use crate::slots::Slots;
use crate::{Backend, ModeSpec, Service, ServiceSpec, ServiceTable, TableError};

/// Lends the ids of services and backends. One per process.
#[derive(Clone, Debug, Default)]
pub struct Registry {
    services: Slots,
    backends: Slots,
}

/// The ids for the backends of one service.
pub(crate) struct Lent {
    pub(crate) id: ServiceId,
    pub(crate) generation: u32,
    /// By place in the spec.
    pub(crate) backends: Vec<(BackendId, u32)>,
    pub(crate) departed: Departed,
}

impl Registry {
    /// The ids for `spec`: those of `old`, where it is the same service with the
    /// same backends, and new ones.
    pub(crate) fn lend(
        &mut self,
        spec: &ServiceSpec,
        old: Option<&Service>,
    ) -> Result<Lent, TableError> {
        let (id, generation) = match old {
            Some(old) => (old.id(), old.generation()),
            None => {
                let (slot, generation) = self.services.take().ok_or(TableError::TooManyServices)?;
                (ServiceId(slot), generation)
            }
        };
        let known = || old.iter().flat_map(|old| old.backends().iter().chain(old.departed()));
        let mut backends = Vec::with_capacity(spec.backends.len());
        for one in &spec.backends {
            let at = (one.address, one.port.or(spec.port));
            let found = known().find(|own| (own.address, own.port) == at);
            backends.push(match found {
                Some(own) => (own.id, own.generation),
                None => {
                    let slot = self.backends.take().ok_or(TableError::TooManyBackends)?;
                    (BackendId(slot.0), slot.1)
                }
            });
        }
        let stays = |own: &&Backend| backends.iter().any(|(id, _)| *id == own.id);
        let departed = known().filter(|own| !stays(own)).copied();
        let departed = departed.map(|own| Backend { weight: 0, ..own }).collect();
        Ok(Lent { id, generation, backends, departed })
    }

    /// The ids that `old` has and `new` hasn't may be given to others. Nothing
    /// may refer to them any more.
    pub fn release(&mut self, old: &ServiceTable, new: &ServiceTable) {
        for gone in old.all_backends().filter(|own| new.backend(own.id).is_none()) {
            self.backends.give_back(gone.id.0);
        }
        for gone in old.all_services().filter(|own| new.service(own.id()).is_none()) {
            self.services.give_back(gone.id().0);
        }
    }
}

/// Whether `old` is the service that `spec` describes: what clients speak to,
/// the way to the backends and the name are the same, and every local endpoint
/// that its connections may have is still in the pool.
pub(crate) fn is_same(old: &Service, spec: &ServiceSpec) -> bool {
    type Identity<'a> = (&'a str, IpAddr, Option<u16>, Transport);
    let own: Identity<'_> = (old.name(), old.vip(), old.port(), old.proto());
    let wanted: Identity<'_> = (&spec.name, spec.vip, spec.port, spec.proto);
    own == wanted
        && match (old.mode(), &spec.mode) {
            (crate::Mode::Nat, ModeSpec::Nat) | (crate::Mode::Dsr, ModeSpec::Dsr) => true,
            (crate::Mode::Tunnel(own), ModeSpec::Tunnel(wanted)) => own.tunnel == wanted.tunnel,
            (crate::Mode::Stateless(_), ModeSpec::Stateless(_)) => true,
            (crate::Mode::FullNat(own), ModeSpec::FullNat { pool }) => own.is_within(pool),
            _ => false,
        }
}
