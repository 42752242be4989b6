//! From one plan to another.
use std::collections::{BTreeMap, BTreeSet};

use service::{Health, ServiceSpec};

use crate::Plan;
use crate::ordered::{Changes, changes};
use crate::plan::{WHOLE, interface_key};
use crate::step::{BackendKey, Order, Step};

/// The steps from `old` to `new`, whose [`Fixed`](crate::Fixed) parts are taken
/// to be the same. What ends comes before what begins, so that an address or a
/// port can pass from one to the other.
#[must_use]
pub fn diff(old: &Plan, new: &Plan) -> Vec<Step> {
    let mut steps = Vec::new();
    network(old, new, &mut steps);
    services(old, new, &mut steps);
    drains(old, new, &mut steps);
    health(old, new, &mut steps);
    if old.timeouts != new.timeouts {
        steps.push(Step::SetTimeouts(new.timeouts));
    }
    if old.embryonic != new.embryonic {
        steps.push(Step::SetEmbryonic(new.embryonic));
    }
    let share = |plan: &Plan, name| plan.shares.get(name).copied().unwrap_or(WHOLE);
    let names: BTreeSet<&String> = old.shares.keys().chain(new.shares.keys()).collect();
    let changed = names.into_iter().filter(|name| share(old, *name) != share(new, *name));
    steps.extend(changed.map(|name| Step::SetShare(name.clone(), share(new, name))));
    if old.sample != new.sample {
        steps.push(Step::SetSample(new.sample));
    }
    if old.refresh_ms != new.refresh_ms {
        steps.push(Step::SetRefresh(new.refresh_ms));
    }
    if old.pin != new.pin {
        steps.push(Step::SetPin(new.pin));
    }
    if old.fragment_timeout_ms != new.fragment_timeout_ms {
        steps.push(Step::SetFragmentTimeout(new.fragment_timeout_ms));
    }
    if old.answers != new.answers {
        steps.push(Step::SetAnswers(new.answers));
    }
    steps
}

fn network(old: &Plan, new: &Plan, steps: &mut Vec<Step>) {
    let Changes { removed, changed, added, order } =
        changes(&old.interfaces, &new.interfaces, interface_key);
    steps.extend(removed.into_iter().map(Step::RemoveInterface));
    steps.extend(changed.into_iter().map(|(_, own)| Step::ChangeInterface(own.clone())));
    steps.extend(added.into_iter().cloned().map(Step::AddInterface));
    steps.extend(order.map(|keys| Step::Reorder(Order::Interfaces(keys))));
    let Changes { removed, added, order, .. } =
        changes(&old.routes, &new.routes, config::Route::clone);
    steps.extend(removed.into_iter().map(Step::RemoveRoute));
    steps.extend(added.into_iter().cloned().map(Step::AddRoute));
    steps.extend(order.map(|routes| Step::Reorder(Order::Routes(routes))));
    let gone = old.neighbours.keys().filter(|address| !new.neighbours.contains_key(address));
    steps.extend(gone.map(|address| Step::RemoveNeighbour(*address)));
    let set = new.neighbours.iter().filter(|(at, mac)| old.neighbours.get(at) != Some(mac));
    steps.extend(set.map(|(address, mac)| Step::SetNeighbour(*address, *mac)));
}

fn services(old: &Plan, new: &Plan, steps: &mut Vec<Step>) {
    let name = |service: &ServiceSpec| service.name.clone();
    let Changes { removed, changed, added, .. } = changes(&old.services, &new.services, name);
    let (goes_on, other): (Vec<_>, Vec<_>) =
        changed.into_iter().partition(|(old, new)| new.succeeds(old));
    steps.extend(removed.into_iter().map(Step::RemoveService));
    steps.extend(other.iter().map(|(old, _)| Step::RemoveService(old.name.clone())));
    for (old, new) in goes_on {
        service(old, new, steps);
    }
    let begins = other.into_iter().map(|(_, new)| new).chain(added);
    steps.extend(begins.cloned().map(Step::AddService));
    let names: Vec<String> = so_far(old, steps).services.iter().map(name).collect();
    let wanted: Vec<String> = new.services.iter().map(name).collect();
    if names != wanted {
        steps.push(Step::Reorder(Order::Services(wanted)));
    }
}

/// A service that stays the same one.
fn service(old: &ServiceSpec, new: &ServiceSpec, steps: &mut Vec<Step>) {
    let bare = |spec: &ServiceSpec| ServiceSpec { backends: Vec::new(), ..spec.clone() };
    let (was, becomes) = (bare(old), bare(new));
    if was != becomes {
        steps.push(Step::ChangeService(becomes));
    }
    let named = || new.name.clone();
    let Changes { removed, changed, added, order } =
        changes(&old.backends, &new.backends, |own| BackendKey::of(new, own));
    let gone = |backend| Step::RemoveBackend { service: named(), backend };
    steps.extend(removed.into_iter().map(gone));
    for (_, backend) in changed {
        steps.push(Step::ChangeBackend { service: named(), backend: backend.clone() });
    }
    for backend in added {
        steps.push(Step::AddBackend { service: named(), backend: backend.clone() });
    }
    steps.extend(order.map(|keys| Step::Reorder(Order::Backends(named(), keys))));
}

fn drains(old: &Plan, new: &Plan, steps: &mut Vec<Step>) {
    // What is removed takes its drains with it.
    let before = so_far(old, steps).drained;
    steps.extend(before.difference(&new.drained).cloned().map(Step::Restore));
    steps.extend(new.drained.difference(&before).cloned().map(Step::Drain));
}

fn health(old: &Plan, new: &Plan, steps: &mut Vec<Step>) {
    // Services that are removed take their checks with them, and backends their health.
    let before = so_far(old, steps).checks;
    let names: BTreeSet<&String> = before.keys().chain(new.checks.keys()).collect();
    for name in names.into_iter().filter(|name| before.get(*name) != new.checks.get(*name)) {
        steps.push(Step::SetChecks(name.clone(), new.checks.get(name).cloned().map(Box::new)));
    }
    let before = so_far(old, steps).health;
    let keys: BTreeSet<_> = before.keys().chain(new.health.keys()).collect();
    for key in keys {
        let part = |all: &BTreeMap<_, Health>| all.get(key).copied().unwrap_or(Health::UP);
        let (was, is) = (part(&before), part(&new.health));
        if was != is {
            let (service, backend) = (key.0.clone(), key.1);
            steps.push(Step::SetHealth { service, backend, health: is });
        }
    }
}

/// Where `steps` lead to from `old`.
fn so_far(old: &Plan, steps: &[Step]) -> Plan {
    steps.iter().fold(old.clone(), Plan::after)
}
