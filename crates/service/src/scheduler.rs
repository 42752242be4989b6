//! What schedulers remember between choices.

use crate::ServiceTable;

/// What one worker's schedulers remember, by id: it outlives configurations.
/// Its memory is taken once and is of fixed size, and the operating system gives
/// pages only to ids in use.
#[derive(Clone, Debug)]
pub struct WorkerScheduleState {
    worker: u32,
    /// The next place in the ring, by service.
    pub(crate) cursors: Box<[u32]>,
    /// Smooth weighted round robin's credits, by backend.
    pub(crate) credits: Box<[i64]>,
    /// The revision for which a service's memory is, by service; 0: for none.
    revisions: Box<[u64]>,
}

impl WorkerScheduleState {
    /// The memory of worker number `worker` for the services of `table`.
    #[must_use]
    pub fn new(worker: usize, table: &ServiceTable) -> Self {
        let ids = 1 << 16;
        let mut state = Self {
            worker: u32::try_from(worker).unwrap_or(0),
            cursors: vec![0; ids].into_boxed_slice(),
            credits: vec![0; ids].into_boxed_slice(),
            revisions: vec![0; ids].into_boxed_slice(),
        };
        state.follow(table);
        state
    }

    /// Takes up a new configuration: services whose scheduler, backends or
    /// weights have changed begin anew, all others go on. Allocates nothing.
    pub fn follow(&mut self, table: &ServiceTable) {
        for service in table.services() {
            let known = self.revisions.get_mut(usize::from(service.id().0));
            let Some(known) = known.filter(|known| **known != service.revision()) else { continue };
            *known = service.revision();
            service.begin(self.worker, self);
        }
    }
}
