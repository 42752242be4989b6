//! The plan in force, and the way to the next one.
use std::path::Path;
use std::sync::Arc;

use config::{Config, ConfigError};
use service::{Backend, Health, Moved, Service, ServiceTimeouts};
use state::{Shared, Snapshot};

use crate::compile::{CompileError, Ids, PortFact, compile, neighbours};
use crate::fixed::Difference;
use crate::leaving::{self, Leaving};
use crate::{BackendKey, Drained, Plan, Problem, Refusal, Reloaded, Steered, Step, diff};

/// How often it is looked whether departed backends are in use, in milliseconds.
const LOOK_MS: u64 = 100;

/// What there is before the first plan.
#[derive(Clone, Debug)]
pub struct Start {
    /// The open ports, in the order of their ids.
    pub ports: Vec<PortFact>,
    /// What is wanted.
    pub plan: Plan,
}

/// What a change did.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Applied {
    /// The steps, in their order; none if nothing was to be done.
    pub steps: Vec<Step>,
    /// What the last drain or restore among them moved of a stateless service.
    pub moved: Moved,
}

/// The one that changes what the load balancer does.
#[derive(Debug)]
pub struct Control {
    plan: Plan,
    ids: Ids,
    ports: Vec<PortFact>,
    /// Snapshots that a worker may still have: they are freed here, when no thread
    /// has them, and never by a worker.
    old: Vec<Arc<Snapshot>>,
    leaving: Option<Leaving>,
    next_look_ms: u64,
}

impl Control {
    /// Brings about the first plan. `shared` has a snapshot without services and
    /// interfaces.
    ///
    /// # Errors
    /// The plan can't be brought about.
    pub fn start(shared: &Shared, start: Start) -> Result<Self, CompileError> {
        let mut control = Self {
            plan: start.plan.nothing(),
            ids: Ids::default(),
            ports: start.ports,
            old: Vec::new(),
            leaving: None,
            next_look_ms: 0,
        };
        control.change(shared, &start.plan)?;
        Ok(control)
    }

    /// The plan in force.
    #[must_use]
    pub const fn plan(&self) -> &Plan {
        &self.plan
    }

    /// Snapshots that are out of force and that another thread still has.
    #[must_use]
    pub fn old_snapshots(&self) -> usize {
        self.old.len()
    }

    /// Brings about `wanted`: all of it, or nothing.
    ///
    /// # Errors
    /// It needs a restart, or can't be brought about.
    pub fn apply(&mut self, shared: &Shared, wanted: &Plan) -> Result<Applied, Refusal> {
        self.check_fixed(wanted, &|difference: &Difference| Problem::at(difference))?;
        self.change(shared, wanted).map_err(impossible)
    }

    /// Brings about the configuration in `text`, which comes from the file
    /// `name`; with `dry_run` only says what that would do.
    ///
    /// # Errors
    /// The configuration is wrong, needs a restart (without `dry_run`, which names what
    /// needs it) or can't be brought about.
    pub fn reload(
        &mut self,
        shared: &Shared,
        (name, text): (&Path, &str),
        dry_run: bool,
    ) -> Result<Reloaded, Refusal> {
        let config = Config::parse(text, name)?;
        let wanted = Plan::of(&config).with_drained(&self.plan.drained);
        let wanted = wanted.with_health(&self.plan.health);
        let problem = |difference: &Difference| {
            let what = difference.to_string();
            Problem::from(&ConfigError::at(name, text, &difference.way, what))
        };
        let mut restart = Vec::new();
        let steps = if dry_run {
            let steps = diff(&self.plan, &wanted);
            let differences = self.plan.fixed.differences(&wanted.fixed);
            restart.extend(differences.iter().map(problem));
            if restart.is_empty() {
                self.compile(shared, &steps).map_err(impossible)?;
            }
            steps
        } else {
            self.check_fixed(&wanted, &problem)?;
            self.change(shared, &wanted).map_err(impossible)?.steps
        };
        Ok(Reloaded {
            file: name.to_path_buf(),
            steps: steps.iter().map(Step::to_string).collect(),
            restart,
            warnings: config.warnings().iter().map(ToString::to_string).collect(),
            dry_run,
        })
    }

    /// Drains a backend (`drain`), or lets it serve again. Of a stateless
    /// service clients move; connections stay.
    ///
    /// # Errors
    /// There is no such backend, or it is so already.
    pub fn steer(
        &mut self,
        shared: &Shared,
        one: &Drained,
        drain: bool,
    ) -> Result<Steered, Refusal> {
        let Drained { service, backend } = one.clone();
        if self.plan.service(&service).is_none() {
            return Err(Refusal::NoService(service));
        }
        if !self.plan.can_drain(one) {
            return Err(Refusal::NoBackend { service, backend });
        }
        if self.plan.drained.contains(one) == drain {
            return Err(Refusal::Already { service, backend, drained: drain });
        }
        let step = if drain { Step::Drain(one.clone()) } else { Step::Restore(one.clone()) };
        let wanted = self.plan.clone().after(&step);
        let applied = self.change(shared, &wanted).map_err(impossible)?;
        Ok(steered(shared, one, applied.moved))
    }

    /// Gives backends of checked services the part of their weight that `found` says,
    /// by service's name and backend; what isn't there, or isn't checked, is left out.
    ///
    /// # Errors
    /// See [`Control::apply`].
    pub fn set_health(
        &mut self,
        shared: &Shared,
        found: impl IntoIterator<Item = ((String, BackendKey), Health)>,
    ) -> Result<Applied, Refusal> {
        let mut health = self.plan.health.clone();
        health.extend(found);
        let wanted = self.plan.clone().with_health(&health);
        self.change(shared, &wanted).map_err(impossible)
    }

    /// Frees snapshots that no other thread has, and the ids of departed backends
    /// to which nothing refers. Called every few milliseconds.
    pub fn tick(&mut self, shared: &Shared, now_ms: u64) {
        self.old.retain_mut(|snapshot| Arc::get_mut(snapshot).is_none());
        if !self.old.is_empty() {
            return;
        }
        // Every worker has the present snapshot.
        match &mut self.leaving {
            Some(leaving) => {
                let due_ms = *leaving.due_ms.get_or_insert(now_ms + self.plan.fragment_timeout_ms);
                if now_ms >= due_ms {
                    leaving.settle(shared.totals());
                    let backends: Vec<_> = leaving.backends.iter().map(|own| own.id).collect();
                    self.ids.services.release(&backends, &leaving.services);
                    self.leaving = None;
                }
            }
            None if now_ms >= self.next_look_ms => {
                self.next_look_ms = now_ms + LOOK_MS;
                self.forget_departed(shared);
            }
            None => {}
        }
    }

    /// Takes departed backends that no connection has out of the snapshot.
    fn forget_departed(&mut self, shared: &Shared) {
        let now = shared.snapshot();
        let table = &now.services;
        if table.departed().is_empty() && table.departed_services().is_empty() {
            return;
        }
        let unused = leaving::unused(table, shared);
        let Some((services, leaving)) = leaving::without(table, unused) else { return };
        let tunnels = state::Tunnels::new(&services, &now.interfaces, &now.routes);
        let next = Snapshot { services, tunnels, ..Snapshot::clone(&now) };
        drop(now);
        self.publish(shared, next);
        self.leaving = Some(leaving);
    }

    fn publish(&mut self, shared: &Shared, next: Snapshot) {
        self.old.push(shared.publish(Arc::new(next)));
    }

    /// What is to be after `steps`, and with which ids. Nothing has changed yet.
    fn compile(&self, shared: &Shared, steps: &[Step]) -> Result<Next, CompileError> {
        let plan = steps.iter().fold(self.plan.clone(), Plan::after);
        let mut ids = self.ids.clone();
        let old = shared.snapshot();
        let (snapshot, moved) = compile(&plan, steps, &old, &mut ids, &self.ports)?;
        let set = neighbours(&plan, &snapshot.interfaces)?;
        if let Some((_, at)) =
            set.keys().find(|(interface, at)| shared.neighbours().hop(*interface, *at, 0).is_none())
        {
            return Err(CompileError::NeighboursFull(*at));
        }
        Ok(Next { plan, ids, snapshot, moved })
    }

    fn change(&mut self, shared: &Shared, wanted: &Plan) -> Result<Applied, CompileError> {
        let steps = diff(&self.plan, wanted);
        if steps.is_empty() {
            return Ok(Applied::default());
        }
        let Next { plan, ids, snapshot, moved } = self.compile(shared, &steps)?;
        let before = neighbours(&self.plan, &shared.snapshot().interfaces)?;
        let after = neighbours(&plan, &snapshot.interfaces)?;
        for ((interface, at), mac) in &after {
            shared.neighbours().set_static(*interface, *at, *mac);
        }
        shared.table().set_timeouts(ServiceTimeouts::new(plan.timeouts, &snapshot.services));
        shared.table().set_embryonic_limits(plan.embryonic);
        shared.neighbours().set_refresh(plan.refresh_ms.into());
        shared.neighbours().set_pinned(plan.pin);
        set_shares(shared, &snapshot, &plan);
        self.publish(shared, snapshot);
        for (interface, at) in before.keys().filter(|key| !after.contains_key(key)) {
            shared.neighbours().unset_static(*interface, *at);
        }
        (self.plan, self.ids) = (plan, ids);
        Ok(Applied { steps, moved })
    }

    fn check_fixed(
        &self,
        wanted: &Plan,
        problem: &dyn Fn(&Difference) -> Problem,
    ) -> Result<(), Refusal> {
        let differences = self.plan.fixed.differences(&wanted.fixed);
        if differences.is_empty() {
            return Ok(());
        }
        Err(Refusal::NeedsRestart(differences.iter().map(problem).collect()))
    }
}

/// A change that can be made.
struct Next {
    plan: Plan,
    ids: Ids,
    snapshot: Snapshot,
    moved: Moved,
}

/// Each service of `snapshot` may take its part of the connection table.
fn set_shares(shared: &Shared, snapshot: &Snapshot, plan: &Plan) {
    let stats = shared.table().stats();
    for service in snapshot.services.services() {
        let family = if service.vip().is_ipv4() { stats.v4 } else { stats.v6 };
        let most = plan.shares.get(service.name()).map(|percent| {
            let most = family.capacity as u64 * u64::from(*percent) / 100;
            u32::try_from(most).unwrap_or(u32::MAX)
        });
        shared.table().set_share(service.id(), most.unwrap_or(u32::MAX));
    }
}

fn impossible(error: CompileError) -> Refusal {
    Refusal::Impossible(error.to_string())
}

/// What has become of `one`'s service.
fn steered(shared: &Shared, one: &Drained, moved: Moved) -> Steered {
    let snapshot = shared.snapshot();
    let mut services = snapshot.services.services().iter();
    let found = services.find(|found| found.name() == one.service);
    let backends = found.map(Service::backends).unwrap_or_default();
    let open = |own: &Backend| u64::from(shared.loads().connections(own.id));
    let open = backends.iter().filter(|own| own.address == one.backend).map(open).sum();
    let serves = |own: &&Backend| found.is_some_and(|found| found.serves(own.id));
    Steered {
        moved: moved.share,
        entries_before: moved.before,
        entries_after: moved.after,
        connections: found.filter(|found| !found.is_stateless()).map(|_| open),
        serving: backends.iter().filter(serves).count(),
    }
}
