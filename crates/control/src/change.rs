//! Changes of services and backends that the control API asks for.
use std::net::IpAddr;

use config::{Backend, Config, ServerIds, Service};
use serde::{Deserialize, Serialize};

use crate::Refusal;

/// A backend as it is to be: what is `None` stays as it is, and a new backend has the
/// configuration's default for it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BackendChange {
    /// Its address.
    pub address: IpAddr,
    /// Its port; `None`: the port that the client asked for. Address and port say which
    /// backend it is.
    #[serde(default)]
    pub port: Option<u16>,
    /// Its weight.
    #[serde(default)]
    pub weight: Option<u16>,
    /// Whether it gets new connections only while no other backend does.
    #[serde(default)]
    pub backup: Option<bool>,
    /// The server ids that it writes into QUIC connection ids.
    #[serde(default)]
    pub server_ids: Option<ServerIds>,
}

impl BackendChange {
    fn anew(&self) -> Backend {
        let Self { address, port, .. } = *self;
        let mut own = Backend {
            address,
            port,
            weight: 1,
            backup: false,
            server_ids: Vec::new(),
            group: None,
        };
        self.apply(&mut own);
        own
    }

    fn apply(&self, own: &mut Backend) {
        own.weight = self.weight.unwrap_or(own.weight);
        own.backup = self.backup.unwrap_or(own.backup);
        if let Some(ServerIds(ids)) = &self.server_ids {
            own.server_ids.clone_from(ids);
        }
    }
}

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
    /// A backend begins to serve, or the one with its address and port changes.
    SetBackend {
        /// The service's name.
        service: String,
        /// The backend.
        backend: BackendChange,
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
                    Some(own) => backend.apply(own),
                    None => backends.push(backend.anew()),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_backend_keeps_what_a_change_leaves_out() {
        let service = r#"{"name": "web", "vip": "10.0.0.1", "port": 443, "protocol": "udp",
            "backend": [{"address": "10.0.0.2", "weight": 3, "backup": true, "server_ids": ["0a0b"]}]}"#;
        let service: Service = serde_json::from_str(service).unwrap();
        let mut config = Config { services: vec![service.clone()], ..Config::default() };
        let mut changed = |body: &str| {
            let backend = serde_json::from_str(body).unwrap();
            let change = Change::SetBackend { service: "web".to_owned(), backend };
            change.apply(&mut config).unwrap();
            config.services[0].backends.clone()
        };
        let old = &service.backends[0];
        assert_eq!(changed(r#"{"address": "10.0.0.2"}"#), std::slice::from_ref(old));
        let backends = changed(r#"{"address": "10.0.0.2", "weight": 9}"#);
        assert_eq!(backends, [Backend { weight: 9, ..old.clone() }]);
        let backends = changed(r#"{"address": "10.0.0.2", "backup": false, "server_ids": []}"#);
        assert_eq!((backends[0].backup, backends[0].server_ids.len()), (false, 0));
        let backends = changed(r#"{"address": "10.0.0.3", "server_ids": ["0c"]}"#);
        assert_eq!((backends[1].weight, backends[1].server_ids.len()), (1, 1));
    }
}
