//! How the services of the configuration in force speak TLS.
use std::collections::HashMap;
use std::sync::Arc;

use arc_swap::ArcSwap;
use config::{BackendTls, Config};
use flow::Protocol;
use terminate::{Carries, Terms};
use tls::TicketKey;

/// By the service's name.
type ByName = HashMap<String, Arc<Terms>>;

/// The terms of all services, exchanged as a whole. Handshakes that have begun go on with
/// what they have.
#[derive(Debug, Default)]
pub(crate) struct TlsTerms {
    present: ArcSwap<ByName>,
    /// The key of tickets of services that have none of their own.
    tickets: Option<TicketKey>,
}

impl TlsTerms {
    /// The terms of `config`.
    ///
    /// # Errors
    /// The service, the file, and what is wrong with it.
    pub(crate) fn new(config: &Config) -> Result<Self, String> {
        let terms = Self { present: ArcSwap::default(), tickets: TicketKey::random() };
        let read = terms.read(config)?;
        terms.follow(read);
        Ok(terms)
    }

    /// Reads all files that `config` names, and changes nothing.
    ///
    /// # Errors
    /// As [`TlsTerms::new`].
    pub(crate) fn read(&self, config: &Config) -> Result<ByName, String> {
        let mut all = ByName::new();
        for service in &config.services {
            let Some(own) = service.tls.as_ref().filter(|_| service.terminates()) else { continue };
            let failed = |error: String| format!("service '{}': {error}", service.name);
            let random = self.tickets.as_ref();
            let random = random.ok_or_else(|| failed("the system has no random key".to_owned()))?;
            let tls = own.server(random, service.alpn()).map_err(failed)?;
            let backends = service.backend_tls.as_ref().map(BackendTls::client).transpose();
            let backends = backends.map_err(|error| failed(error.to_string()))?;
            let carries = match service.protocol {
                Protocol::Tls => Carries::Bytes,
                _ => Carries::Requests,
            };
            let (hsts, whole_certificate) =
                (own.strict_transport(), own.forward_client_certificate);
            let terms = Terms { tls, hsts, backends, carries, whole_certificate };
            all.insert(service.name.clone(), Arc::new(terms));
        }
        Ok(all)
    }

    /// Goes over to what was read.
    pub(crate) fn follow(&self, read: ByName) {
        self.present.store(Arc::new(read));
    }

    /// The terms of a service.
    pub(crate) fn of(&self, name: &str) -> Option<Arc<Terms>> {
        self.present.load().get(name).cloned()
    }
}
