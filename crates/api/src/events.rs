//! What has happened, from two reports, one after the other.
use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::response::sse::{Event as SseEvent, KeepAlive, Sse};
use control::{Refusal, Request};
use futures_util::stream::{Stream, unfold};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use status::{BackendStatus, Status};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::engine::Engine;

/// How often reports are compared.
const EVERY: Duration = Duration::from_secs(1);
/// Clients that may listen at a time: each costs a report in every turn.
pub(crate) const LISTENERS: usize = 16;

/// Something that has happened.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub struct Event {
    /// What kind of thing.
    pub kind: EventKind,
    /// Of what: a port, a service, or a service and a backend.
    pub about: String,
    /// What is so now.
    pub now: String,
}

/// The kinds of events.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum EventKind {
    /// Every port runs and every next hop has answered, or not any more.
    Ready,
    /// A port's link is up or down.
    Link,
    /// A service has begun or ended.
    Service,
    /// A backend has begun or ended, or has another weight.
    Backend,
    /// A backend was drained or restored.
    Drain,
    /// A backend's next hop answers, or not any more.
    NextHop,
    /// A backend's health checks pass, or not any more.
    Health,
    /// Routers are told of a VIP, or not any more, or for another reason.
    Announce,
}

/// What has happened between `before` and `after`.
pub(crate) fn between(before: &Status, after: &Status) -> Vec<Event> {
    let mut events = Vec::new();
    let mut tell = |kind, about: &str, now: String| {
        events.push(Event { kind, about: about.to_owned(), now });
    };
    if before.ready != after.ready {
        let waiting = || format!("waiting for {}", after.waiting_for.join(", "));
        let now = if after.ready { "ready".to_owned() } else { waiting() };
        tell(EventKind::Ready, "hnlb", now);
    }
    for (old, new) in before.ports.iter().zip(&after.ports) {
        if old.link_up != new.link_up {
            let now = if new.link_up { "up" } else { "down" };
            tell(EventKind::Link, &new.name, now.to_owned());
        }
    }
    let (old, new) = (services(before), services(after));
    for name in old.keys().filter(|name| !new.contains_key(*name)) {
        tell(EventKind::Service, name, "ended".to_owned());
    }
    for name in new.keys().filter(|name| !old.contains_key(*name)) {
        tell(EventKind::Service, name, "begun".to_owned());
    }
    let (old, new) = (vips(before), vips(after));
    for (vip, state) in new.iter().filter(|(vip, state)| old.get(*vip) != Some(state)) {
        tell(EventKind::Announce, vip, (*state).to_owned());
    }
    let (old, new) = (backends(before), backends(after));
    for (name, _) in old.iter().filter(|(name, _)| !new.contains_key(*name)) {
        tell(EventKind::Backend, name, "ended".to_owned());
    }
    for (name, own) in &new {
        match old.get(name) {
            None => tell(EventKind::Backend, name, format!("begun, weight {}", own.weight)),
            Some(was) => changes(was, own, |kind, now| tell(kind, name, now)),
        }
    }
    events
}

fn changes(was: &BackendStatus, own: &BackendStatus, mut tell: impl FnMut(EventKind, String)) {
    if was.drained != own.drained {
        let now = if own.drained { "drained" } else { "restored" };
        tell(EventKind::Drain, now.to_owned());
    } else if was.weight != own.weight {
        tell(EventKind::Backend, format!("weight {}", own.weight));
    }
    let state = |of: &BackendStatus| of.health.as_ref().map(|health| health.state.clone());
    if let Some(now) = state(own).filter(|now| state(was).as_ref() != Some(now)) {
        let why = own.health.as_ref().map_or("", |health| health.last_failure.as_str());
        let now = if why.is_empty() { now } else { format!("{now}: {why}") };
        tell(EventKind::Health, now);
    }
    if was.next_hop != own.next_hop {
        tell(EventKind::NextHop, own.next_hop.clone());
    }
}

fn services(status: &Status) -> BTreeMap<String, ()> {
    let present = status.services.iter().filter(|own| !own.removed);
    present.map(|own| (own.name.clone(), ())).collect()
}

/// Why each VIP is announced, or is not.
fn vips(status: &Status) -> BTreeMap<&str, &str> {
    let all = status.announce.iter().flat_map(|own| &own.vips);
    all.map(|own| (own.vip.as_str(), own.state.as_str())).collect()
}

fn backends(status: &Status) -> BTreeMap<String, &BackendStatus> {
    let present = status.services.iter().filter(|own| !own.removed);
    let all = present.flat_map(|own| {
        own.backends.iter().map(|backend| (format!("{} {}", own.name, backend.address), backend))
    });
    all.collect()
}

/// Who listens.
struct Listener {
    engine: Engine,
    last: Status,
    due: Vec<Event>,
    _place: OwnedSemaphorePermit,
}

/// The events from now on, until the load balancer ends.
pub(crate) async fn listen(
    engine: Engine,
    places: Arc<Semaphore>,
) -> Result<Sse<impl Stream<Item = Result<SseEvent, Infallible>>>, Refusal> {
    let busy = || Refusal::Busy(format!("{LISTENERS} clients listen to events already"));
    let place = places.try_acquire_owned().map_err(|_| busy())?;
    let last = engine.ask_for(Request::Status).await?;
    let listener = Listener { engine, last, due: Vec::new(), _place: place };
    Ok(Sse::new(unfold(listener, next)).keep_alive(KeepAlive::default()))
}

async fn next(mut listener: Listener) -> Option<(Result<SseEvent, Infallible>, Listener)> {
    loop {
        if let Some(event) = listener.due.pop() {
            let event = SseEvent::default().json_data(&event).ok()?;
            return Some((Ok(event), listener));
        }
        tokio::time::sleep(EVERY).await;
        match listener.engine.ask_for::<Status>(Request::Status).await {
            Ok(status) => {
                listener.due = between(&listener.last, &status);
                listener.due.reverse();
                listener.last = status;
            }
            Err(Refusal::Busy(_)) => {}
            Err(_) => return None,
        }
    }
}

#[cfg(test)]
mod tests {
    use status::{AnnounceStatus, AnnouncedVip, HealthStatus, PortStatus, ServiceStatus};

    use super::*;

    fn backend(address: &str) -> BackendStatus {
        BackendStatus { address: address.to_owned(), weight: 1, ..BackendStatus::default() }
    }

    fn status() -> Status {
        let service = |name: &str| ServiceStatus {
            name: name.to_owned(),
            backends: vec![backend("10.0.0.1:80"), backend("10.0.0.2:80")],
            ..ServiceStatus::default()
        };
        let port = PortStatus { name: "p0".to_owned(), ..PortStatus::default() };
        Status {
            ports: vec![port],
            services: vec![service("web"), service("dns")],
            ..Status::default()
        }
    }

    #[test]
    fn each_change_is_one_event_and_no_change_is_none() {
        let before = status();
        assert_eq!(between(&before, &before), []);
        type Case = (EventKind, &'static str, &'static str, fn(&mut Status));
        let cases: [Case; 10] = [
            (EventKind::Announce, "10.0.0.100", "no backend", |s| {
                let (vip, state) = ("10.0.0.100".to_owned(), "no backend".to_owned());
                let vips = vec![AnnouncedVip { vip, announced: false, state }];
                s.announce = Some(AnnounceStatus { vips, ..AnnounceStatus::default() });
            }),
            (EventKind::Ready, "hnlb", "ready", |s| s.ready = true),
            (EventKind::Link, "p0", "up", |s| s.ports[0].link_up = true),
            (EventKind::Backend, "web 10.0.0.2:80", "weight 5", |s| {
                s.services[0].backends[1].weight = 5;
            }),
            (EventKind::Drain, "dns 10.0.0.1:80", "drained", |s| {
                s.services[1].backends[0].drained = true;
                s.services[1].backends[0].weight = 0;
            }),
            (EventKind::Health, "web 10.0.0.2:80", "down: refused", |s| {
                s.services[0].backends[1].health = Some(HealthStatus {
                    state: "down".to_owned(),
                    last_failure: "refused".to_owned(),
                    ..HealthStatus::default()
                });
            }),
            (EventKind::NextHop, "web 10.0.0.1:80", "no answer", |s| {
                s.services[0].backends[0].next_hop = "no answer".to_owned();
            }),
            (EventKind::Backend, "web 10.0.0.3:80", "begun, weight 1", |s| {
                s.services[0].backends.insert(0, backend("10.0.0.3:80"));
            }),
            (EventKind::Backend, "web 10.0.0.1:80", "ended", |s| {
                s.services[0].backends.remove(0);
            }),
            // Its order alone is no event.
            (EventKind::Ready, "hnlb", "ready", |s| {
                s.services.reverse();
                s.ready = true;
            }),
        ];
        for (kind, about, now, change) in cases {
            let mut after = before.clone();
            change(&mut after);
            let event = Event { kind, about: about.to_owned(), now: now.to_owned() };
            assert_eq!(between(&before, &after), [event]);
        }
        let mut after = before.clone();
        after.services[1].removed = true;
        let ended = between(&before, &after);
        assert_eq!(ended.len(), 3, "the service and its backends: {ended:?}");
        assert_eq!(ended[0].kind, EventKind::Service);
    }
}
