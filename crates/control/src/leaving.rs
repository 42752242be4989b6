//! Backends that have left the configuration, until nothing refers to them.
use flow::ServiceId;
use service::{Backend, ServiceTable};
use state::{BackendTotals, Shared};

/// Ids that are in no snapshot any more.
#[derive(Debug)]
pub(crate) struct Leaving {
    pub(crate) backends: Vec<Backend>,
    pub(crate) services: Vec<ServiceId>,
    /// From when on no fragment of theirs is remembered; `None` while a worker
    /// may have an older snapshot.
    pub(crate) due_ms: Option<u64>,
}

impl Leaving {
    /// Closes their counts: nothing is counted for them any more.
    pub(crate) fn settle(&self, totals: &BackendTotals) {
        self.backends.iter().for_each(|own| totals.retire(own.service, own.id));
        self.services.iter().for_each(|id| totals.forget(*id));
    }
}

/// The departed backends of `table` that no connection has, and whose ids no
/// receive queue means. No worker may have a snapshot older than that of `table`:
/// then none can give them a connection.
pub(crate) fn unused(table: &ServiceTable, shared: &Shared) -> Vec<Backend> {
    let idle = table.departed().iter().filter(|own| shared.loads().connections(own.id) == 0);
    let free = |id| shared.ports().iter().all(|port| !port.queues.means(id));
    idle.filter(|own| free(own.id)).copied().collect()
}

/// `table` without `backends`, and what has left by that.
pub(crate) fn without(
    table: &ServiceTable,
    backends: Vec<Backend>,
) -> Option<(ServiceTable, Leaving)> {
    let empty = table.departed_services().iter().any(|service| service.departed().is_empty());
    if backends.is_empty() && !empty {
        return None;
    }
    let next = table.without(&|own| backends.iter().any(|gone| gone.id == own.id));
    let gone = table.departed_services().iter().map(service::Service::id);
    let services = gone.filter(|id| next.service(*id).is_none()).collect();
    Some((next, Leaving { backends, services, due_ms: None }))
}
