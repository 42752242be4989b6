//! Backends that have left the configuration, until nothing refers to them.
use flow::{BackendId, ServiceId};
use service::ServiceTable;
use state::Shared;

/// Ids that are in no snapshot any more.
#[derive(Debug)]
pub(crate) struct Leaving {
    pub(crate) backends: Vec<BackendId>,
    pub(crate) services: Vec<ServiceId>,
    /// From when on no fragment of theirs is remembered; `None` while a worker
    /// may have an older snapshot.
    pub(crate) due_ms: Option<u64>,
}

/// The departed backends of `table` that no connection has, and whose ids no
/// receive queue means. No worker may have a snapshot older than that of `table`:
/// then none can give them a connection.
pub(crate) fn unused(table: &ServiceTable, shared: &Shared) -> Vec<BackendId> {
    let idle = table.departed().iter().filter(|own| shared.loads().connections(own.id) == 0);
    let idle = idle.map(|own| own.id);
    idle.filter(|id| shared.ports().iter().all(|port| !port.queues.means(*id))).collect()
}

/// `table` without `backends`, and what has left by that.
pub(crate) fn without(
    table: &ServiceTable,
    backends: Vec<BackendId>,
) -> Option<(ServiceTable, Leaving)> {
    let empty = table.departed_services().iter().any(|service| service.departed().is_empty());
    if backends.is_empty() && !empty {
        return None;
    }
    let next = table.without(&|own| backends.contains(&own.id));
    let gone = table.departed_services().iter().map(service::Service::id);
    let services = gone.filter(|id| next.service(*id).is_none()).collect();
    Some((next, Leaving { backends, services, due_ms: None }))
}
