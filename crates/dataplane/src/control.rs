//! What the status socket is told to do: backends are drained, and serve again.
use std::net::IpAddr;
use std::path::Path;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use service::{Backend, Moved, Service};
use state::{Shared, Snapshot};

use crate::status_socket::{self, StatusSocketError};

/// How commands begin; the service's name and the backend's address follow.
const DRAIN: &str = "drain ";
const RESTORE: &str = "restore ";
/// How long an old configuration is kept, so that no worker has to free it.
const KEPT_MS: u64 = 1000;

/// What a command did.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Steered {
    /// Why nothing was done.
    pub error: Option<String>,
    /// The part of all client addresses that changed their backend.
    pub moved: f64,
    /// Entries before.
    pub entries_before: usize,
    /// Entries now.
    pub entries_after: usize,
    /// Connections of the backend, which stay; `None` if the service has none.
    pub connections: Option<u64>,
    /// Backends of the service that take clients or connections now.
    pub serving: usize,
}

/// The side that obeys.
#[derive(Debug)]
pub(crate) struct Control {
    shared: Arc<Shared>,
    old: Vec<(u64, Arc<Snapshot>)>,
}

impl Control {
    pub(crate) fn new(shared: Arc<Shared>) -> Self {
        Self { shared, old: Vec::new() }
    }

    /// Obeys `command`, and says what came of it as JSON; `None` if it is none.
    pub(crate) fn obey(&mut self, command: &str, now_ms: u64) -> Option<String> {
        let command = command.trim();
        let (drain, words) = match command.strip_prefix(DRAIN) {
            Some(words) => (true, words),
            None => (false, command.strip_prefix(RESTORE)?),
        };
        let done = self
            .steer(words, drain, now_ms)
            .unwrap_or_else(|error| Steered { error: Some(error), ..Steered::default() });
        let text = serde_json::to_string(&done);
        Some(text.unwrap_or_else(|error| {
            tracing::error!(%error, "the answer has no JSON form");
            "{}".to_owned()
        }))
    }

    fn steer(&mut self, words: &str, drain: bool, now_ms: u64) -> Result<Steered, String> {
        let (service, address) = words.rsplit_once(' ').ok_or_else(|| usage(words))?;
        let backend: IpAddr = address.parse().map_err(|_| usage(words))?;
        let steered = self.shared.steer(service.trim(), backend, drain);
        let (moved, old) = steered.map_err(|error| error.to_string())?;
        self.old.push((now_ms, old));
        let done = self.steered(service.trim(), backend, moved);
        let what = if drain { "drained" } else { "restored" };
        match done.connections {
            None => {
                let percent = moved.share * 100.0;
                tracing::info!(service, %backend, "backend {what}: {percent:.2} % of the clients move");
            }
            Some(open) => tracing::info!(service, %backend, open, "backend {what}"),
        }
        if done.serving == 0 {
            tracing::warn!(service, "no backend is left: clients are refused");
        }
        Ok(done)
    }

    fn steered(&self, service: &str, backend: IpAddr, moved: Moved) -> Steered {
        let snapshot = self.shared.snapshot.load();
        let mut services = snapshot.services.services().iter();
        let found = services.find(|found| found.name() == service);
        let backends = found.map(Service::backends).unwrap_or_default();
        let open = |own: &Backend| u64::from(self.shared.active.get(own.id));
        let open = backends.iter().filter(|own| own.address == backend).map(open).sum();
        let serves =
            |own: &&Backend| own.weight > 0 && found.is_some_and(|found| !found.is_drained(own.id));
        Steered {
            error: None,
            moved: moved.share,
            entries_before: moved.before,
            entries_after: moved.after,
            connections: found.filter(|found| !found.is_stateless()).map(|_| open),
            serving: backends.iter().filter(serves).count(),
        }
    }

    /// Frees configurations that no worker uses any more.
    pub(crate) fn forget(&mut self, now_ms: u64) {
        self.old.retain(|(since, _)| now_ms.saturating_sub(*since) < KEPT_MS);
    }
}

fn usage(words: &str) -> String {
    format!("\"{words}\" is not SERVICE ADDRESS, as in \"dns4 10.72.0.11\"")
}

/// Drains a backend of the instance that serves `path`, or lets it serve again:
/// a [`Steered`] as JSON.
///
/// # Errors
/// Nobody answers there.
pub fn steer(
    path: &Path,
    service: &str,
    backend: IpAddr,
    drain: bool,
) -> Result<String, StatusSocketError> {
    let verb = if drain { DRAIN } else { RESTORE };
    status_socket::ask(path, &format!("{verb}{service} {backend}\n"))
}

#[cfg(test)]
mod tests {
    use config::Config;
    use setup::{PortFacts, Seed};
    use wire::Mac;

    use super::*;

    const TEXT: &str = "[[port]]\nname = \"p0\"\ndevice = \"net_null0\"\n\
        [[interface]]\nport = \"p0\"\naddresses = [\"10.71.0.1/24\"]\n\
        [conntrack]\nconnections = 1024\n\
        [[service]]\nname = \"dns\"\nvip = \"10.71.0.100\"\nport = 53\nprotocol = \"udp\"\n\
        mode = \"dsr\"\nstateless = true\n\
        [[service.backend]]\naddress = \"10.71.0.11\"\n\
        [[service.backend]]\naddress = \"10.71.0.12\"\n\
        [[service]]\nname = \"web\"\nvip = \"10.71.0.101\"\nport = 80\nprotocol = \"tcp\"\n\
        [[service.backend]]\naddress = \"10.71.0.11\"\n\
        [[service.backend]]\naddress = \"10.71.0.12\"\n";

    #[test]
    fn backends_are_drained_and_come_back() {
        let config = Config::parse(TEXT, "test").unwrap();
        let facts = [PortFacts { mac: Mac([2, 0, 0, 0, 0, 1]), queues: 1, ring: 64 }];
        let shared = Arc::new(setup::shared(&config, &facts, false, Seed([1; 32])).unwrap());
        let mut control = Control::new(Arc::clone(&shared));
        let mut told = |command: &str| -> Option<Steered> {
            control.obey(command, 5).map(|answer| serde_json::from_str(&answer).unwrap())
        };
        assert_eq!(told(""), None);
        assert_eq!(told("connection 192.0.2.1:5"), None);
        let drained = told("drain dns 10.71.0.11\n").unwrap();
        assert_eq!((drained.error, drained.moved), (None, 0.5));
        assert_eq!((drained.connections, drained.serving), (None, 1));
        let serving = || {
            let snapshot = shared.snapshot.load();
            let classes = snapshot.services.services()[0].classes().unwrap();
            classes.shares().filter(|share| share.assigned > 0.0).count()
        };
        assert_eq!(serving(), 1);
        for (command, word) in [
            ("drain dns 10.71.0.11", "already"),
            ("drain dns 10.71.0.13", "no backend"),
            ("drain x 10.71.0.11", "no service"),
            ("drain dns", "is not SERVICE ADDRESS"),
            ("restore dns x", "is not SERVICE ADDRESS"),
        ] {
            let error = told(command).unwrap().error.unwrap();
            assert!(error.contains(word), "{command}: {error}");
        }
        assert_eq!(told("restore dns 10.71.0.11").unwrap().error, None);
        assert_eq!(serving(), 2);
        // With connections: those of the backend stay.
        let id = shared.snapshot.load().services.services()[1].backends()[0].id;
        (0..3).for_each(|_| shared.active.opened(id));
        for (command, left) in [
            ("drain web 10.71.0.11", 1),
            ("drain web 10.71.0.12", 0),
            ("restore web 10.71.0.11", 1),
        ] {
            let done = told(command).unwrap();
            let open = if command.ends_with("11") { 3 } else { 0 };
            assert_eq!((done.error, done.moved, done.serving), (None, 0.0, left), "{command}");
            assert_eq!(done.connections, Some(open), "{command}");
        }
        control.forget(1004);
        assert_eq!(control.old.len(), 5);
        control.forget(1005);
        assert!(control.old.is_empty());
    }
}
