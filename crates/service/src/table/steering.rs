//! Backends that are drained at run time, and serve again.
use std::net::IpAddr;

use super::ServiceTable;
use crate::{Backend, Health, Moved, Service};

/// Why a backend can't be drained, or serve again.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SteerError {
    /// No service has the name.
    #[error("there is no service '{service}'")]
    NoService {
        /// The name.
        service: String,
    },
    /// The service has no such backend.
    #[error("service '{service}' has no backend {backend} with a weight")]
    NoBackend {
        /// The service's name.
        service: String,
        /// The address.
        backend: IpAddr,
    },
    /// It is as it should become.
    #[error("backend {backend} of service '{service}' is {} already", if *.drained { "drained" } else { "serving" })]
    Already {
        /// The service's name.
        service: String,
        /// The address.
        backend: IpAddr,
        /// What it is.
        drained: bool,
    },
}

impl ServiceTable {
    /// A table in which the backends of `service` at `backend` are drained
    /// (`drain`) or serve again; all else is the same. Of a stateless service
    /// clients move, as told. One with connections gives drained backends no
    /// new ones, and those that exist stay.
    ///
    /// # Errors
    /// There is no such service or backend, or it is so already.
    pub fn steer(
        &self,
        service: &str,
        backend: IpAddr,
        drain: bool,
    ) -> Result<(Self, Moved), SteerError> {
        let name = || service.to_owned();
        let mut table = self.clone();
        let found = table.services.iter_mut().find(|found| found.name() == service);
        let found = found.ok_or_else(|| SteerError::NoService { service: name() })?;
        if !found.can_drain(backend) {
            return Err(SteerError::NoBackend { service: name(), backend });
        }
        let moved = found.steer(backend, drain).ok_or_else(|| SteerError::Already {
            service: name(),
            backend,
            drained: drain,
        })?;
        table.copy_backends();
        Ok((table, moved))
    }

    /// A table in which backends have the health that `health` says of each, by its
    /// service's name; all else is the same. `None` if that changes nothing.
    #[must_use]
    pub fn with_health(&self, health: &dyn Fn(&str, &Backend) -> Health) -> Option<(Self, Moved)> {
        let mut table = self.clone();
        let mut all: Option<Moved> = None;
        for service in table.services.iter_mut().take(table.configured) {
            let name = service.name().to_owned();
            if let Some(moved) = service.set_health(&|own| health(&name, own)) {
                all = Some(moved);
            }
        }
        let moved = all?;
        table.copy_backends();
        Some((table, moved))
    }

    fn copy_backends(&mut self) {
        let own = self.services.iter().take(self.configured);
        self.sheds = own
            .clone()
            .any(|service| service.backends().iter().any(|own| !service.on_down(own.id).is_keep()));
        self.backends = own.flat_map(Service::backends).copied().collect();
    }

    /// Drains what is drained in `old`, the table before a change of the
    /// configuration: services are the same if their names are, backends if
    /// their addresses are.
    pub(crate) fn keep_drained(&mut self, old: &Self) {
        for service in old.services() {
            for backend in service.backends().iter().filter(|own| service.is_drained(own.id)) {
                // An error: it is gone, or has no weight any more, or it has been
                // drained with another of the same address.
                if let Ok((table, _)) = self.steer(service.name(), backend.address, true) {
                    *self = table;
                }
            }
        }
    }
}
