//! How the backend of a new connection is chosen: each scheduler in a file of its
//! own, and what they remember between choices.
mod least_connections;
mod least_latency;
mod round_robin;
mod weighted_round_robin;

use flow::{BackendId, Scheduler};
use wire::FlowKey;

use crate::maglev::Maglev;
use crate::{Backend, BackendLoads, GroupId, Service, ServiceTable, siphash};

/// How often a scheduler is asked for a backend that has not been tried, before the first
/// such backend is taken.
const TRIES: u64 = 4;

/// What a scheduler chooses from: the backends of one service, by place.
#[derive(Clone, Copy)]
pub(crate) struct Members<'a> {
    pub(crate) backends: &'a [Backend],
    /// The places of those that have a weight.
    pub(crate) eligible: &'a [u16],
    /// By consistent hashing, in proportion to the weights.
    pub(crate) maglev: &'a Maglev,
}

impl Service {
    /// The backend for the new connection `flow`; `None` if all are drained.
    #[must_use]
    pub fn schedule(
        &self,
        flow: &FlowKey,
        state: &mut WorkerScheduleState,
        loads: &BackendLoads,
    ) -> Option<BackendId> {
        let members = self.members();
        let cursor = state.cursors.get_mut(usize::from(self.id().0))?;
        let place = match self.scheduler() {
            Scheduler::RoundRobin => round_robin::next(members, cursor),
            Scheduler::WeightedRoundRobin => {
                weighted_round_robin::next(members, &mut state.credits)
            }
            Scheduler::LeastConnections => least_connections::next(members, loads, cursor),
            Scheduler::LeastLatency => least_latency::place(members, flow, loads),
            Scheduler::Maglev | Scheduler::SourceHash => return self.hashed(flow),
        }?;
        self.at(place).map(|backend| backend.id)
    }

    /// The backend of `group` for a request of the client's connection `flow`, other than
    /// those `tried`; `None` if there is none. Least connections and least latency, which
    /// measure whole connections, choose in turn by weight.
    #[must_use]
    pub fn schedule_in(
        &self,
        group: GroupId,
        flow: &FlowKey,
        state: &mut WorkerScheduleState,
        tried: &dyn Fn(&Backend) -> bool,
    ) -> Option<&Backend> {
        let group = self.routing()?.group(group)?;
        for again in 0..TRIES {
            let place = match (self.scheduler(), group.maglev()) {
                (Scheduler::SourceHash, Some(maglev)) => {
                    maglev.get(siphash::address(self.hash_key(), flow.src().ip(), again))
                }
                (_, Some(maglev)) => maglev.get(siphash::flow(self.hash_key(), flow, again)),
                (scheduler, None) => {
                    let members = group.members(self.backends(), self.members().maglev);
                    let first = self.at(group.first()?)?.id;
                    match scheduler {
                        Scheduler::RoundRobin => {
                            let ring = state.rings.get_mut(usize::from(first.0))?;
                            round_robin::next(members, ring)
                        }
                        _ => weighted_round_robin::next(members, &mut state.credits),
                    }
                }
            }?;
            let chosen = self.at(place)?;
            if !tried(chosen) {
                return Some(chosen);
            }
        }
        group.places().filter_map(|place| self.at(place)).find(|own| !tried(own))
    }

    /// Makes what `state` remembers of it that of a worker's beginning: those of
    /// different workers begin at different places, so that together they don't
    /// favour the first backend.
    fn begin(&self, state: &mut WorkerScheduleState) {
        if let Some(cursor) = state.cursors.get_mut(usize::from(self.id().0)) {
            *cursor = state.worker;
        }
        for own in self.backends() {
            if let Some(credit) = state.credits.get_mut(usize::from(own.id.0)) {
                *credit = 0;
            }
        }
        if self.scheduler() == Scheduler::WeightedRoundRobin {
            let cycle: u32 = self.backends().iter().map(|own| u32::from(own.weight)).sum();
            for _ in 0..state.worker.checked_rem(cycle).unwrap_or(0) {
                weighted_round_robin::next(self.members(), &mut state.credits);
            }
        }
    }
}

/// What one worker's schedulers remember, by id: it outlives configurations.
/// Its memory is taken once and is of fixed size, and the operating system gives
/// pages only to ids in use.
#[derive(Clone, Debug)]
pub struct WorkerScheduleState {
    worker: u32,
    /// The next place in the ring, by service.
    cursors: Box<[u32]>,
    /// The next place in the ring of a group, by the group's first backend with a weight.
    rings: Box<[u32]>,
    /// Smooth weighted round robin's credits, by backend.
    credits: Box<[i64]>,
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
            rings: vec![0; ids].into_boxed_slice(),
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
            service.begin(self);
        }
    }
}
