//! The ids of services and backends, over all configurations of a process.
//!
//! Records, marks, queue meanings and tunnels name services and backends by
//! their ids, for longer than a configuration lasts. So an id belongs to one
//! service or backend from its first configuration on until it has been removed
//! *and* its last connection is gone: until then it is departed. Only then
//! [`Registry::release`] makes the id free for another.
use flow::{BackendId, ServiceId};

use crate::service::Departed;
use crate::slots::Slots;
use crate::{Backend, Service, ServiceSpec, TableError};

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

    /// The ids of `backends` and `services` may be given to others. Nothing may
    /// refer to them any more.
    pub fn release(&mut self, backends: &[BackendId], services: &[ServiceId]) {
        backends.iter().for_each(|id| self.backends.give_back(id.0));
        services.iter().for_each(|id| self.services.give_back(id.0));
    }
}
