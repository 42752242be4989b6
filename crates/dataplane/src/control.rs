//! What the status socket is told to do: backends of stateless services are
//! drained, and serve again.
use std::net::IpAddr;
use std::path::Path;
use std::sync::Arc;

use pipeline::{Shared, Snapshot};
use serde::{Deserialize, Serialize};

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
        let what = if drain { "drained" } else { "restored" };
        let percent = moved.share * 100.0;
        tracing::info!(service, %backend, "backend {what}: {percent:.2} % of the clients move");
        Ok(Steered {
            error: None,
            moved: moved.share,
            entries_before: moved.before,
            entries_after: moved.after,
        })
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
