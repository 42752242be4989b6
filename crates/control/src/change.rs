//! Changes of services and backends that the control API asks for.
use std::net::IpAddr;

use config::{Backend, Config, Service};
use serde::{Deserialize, Serialize};

use crate::Refusal;

/// A change of the configuration in force. The file does not change.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Change {
    /// A service begins, or another one takes the place of the one with its name.
    SetService(Box<Service>),
    /// A service ends.
    RemoveService {
        /// Its name.
        service: String,
    },
    /// A backend begins to serve, or another one takes the place of the one with its
    /// address and port.
    SetBackend {
        /// The service's name.
        service: String,
        /// The backend.
        backend: Backend,
    },
    /// A backend gets another weight, on all its ports.
    SetWeight {
        /// The service's name.
        service: String,
        /// The backend's address.
        backend: IpAddr,
        /// The weight.
        weight: u16,
    },
    /// A backend leaves a service, with all its ports.
    RemoveBackend {
        /// The service's name.
        service: String,
        /// The backend's address.
        backend: IpAddr,
    },
}

impl Change {
    /// Changes `config`. Whether the result can be is another question.
    ///
    /// # Errors
    /// There is no such service or backend.
    pub fn apply(&self, config: &mut Config) -> Result<(), Refusal> {
        match self {
            Self::SetService(service) => {
                match config.services.iter_mut().find(|own| own.name == service.name) {
                    Some(own) => own.clone_from(service),
                    None => config.services.push(Service::clone(service)),
                }
            }
            Self::RemoveService { service } => {
                find(config, service)?;
                config.services.retain(|own| own.name != *service);
            }
            Self::SetBackend { service, backend } => {
                let backends = &mut find(config, service)?.backends;
                let is_same =
                    |own: &&mut Backend| (own.address, own.port) == (backend.address, backend.port);
                match backends.iter_mut().find(is_same) {
                    Some(own) => own.clone_from(backend),
                    None => backends.push(backend.clone()),
                }
            }
            Self::SetWeight { service, backend, weight } => {
                let mut found = false;
                let backends = &mut find(config, service)?.backends;
                for own in backends.iter_mut().filter(|own| own.address == *backend) {
                    (own.weight, found) = (*weight, true);
                }
                known(found, service, *backend)?;
            }
            Self::RemoveBackend { service, backend } => {
                let backends = &mut find(config, service)?.backends;
                let before = backends.len();
                backends.retain(|own| own.address != *backend);
                known(backends.len() < before, service, *backend)?;
            }
        }
        Ok(())
    }
}

fn find<'a>(config: &'a mut Config, service: &str) -> Result<&'a mut Service, Refusal> {
    let found = config.services.iter_mut().find(|own| own.name == service);
    found.ok_or_else(|| Refusal::NoService(service.to_owned()))
}

fn known(found: bool, service: &str, backend: IpAddr) -> Result<(), Refusal> {
    let unknown = || Refusal::NoSuchBackend { service: service.to_owned(), backend };
    found.then_some(()).ok_or_else(unknown)
}
