//! The picture that two reports make, one after the other: what happens now, with a
//! rate for everything that the reports count.
use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    BackendStatus, PortStatus, RequestsPicture, ServiceStatus, Status, TrafficPicture, WorkerStatus,
};

/// What happens now. Rates are per second; without an earlier report they are `None`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Picture {
    /// The program's version.
    pub version: String,
    /// Every port runs and every backend's next hop has answered.
    pub ready: bool,
    /// What is still missing while `ready` is false.
    pub waiting_for: Vec<String>,
    /// Seconds since the workers started.
    pub uptime_seconds: f64,
    /// The seconds between the two reports, over which rates are means.
    pub seconds: Option<f64>,
    /// All workers, ports and services together.
    pub totals: Totals,
    /// The workers.
    pub workers: Vec<WorkerPicture>,
    /// The ports.
    pub ports: Vec<PortPicture>,
    /// The services.
    pub services: Vec<ServicePicture>,
    /// The backends of all services.
    pub backends: Vec<BackendPicture>,
    /// Why packets were dropped, the reasons that have occurred since the start.
    pub drops: Vec<CounterPicture>,
    /// The counters of the data path and of rules that aren't 0.
    pub counters: Vec<CounterPicture>,
}

/// Everything together.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Totals {
    /// Packets that workers received.
    pub received: Option<f64>,
    /// Packets that workers sent.
    pub sent: Option<f64>,
    /// Packets that NICs rewrote and sent on themselves.
    pub past_workers: Option<f64>,
    /// Packets dropped.
    pub dropped: Option<f64>,
    /// Connections that began.
    pub new_connections: Option<f64>,
    /// Connections in the table.
    pub connections: u64,
    /// Connections that the table holds at most, IPv4 and IPv6 together.
    pub connections_limit: u64,
    /// Rules in NICs.
    pub rules: u64,
    /// Rules that NICs can hold; 0 if no driver tells.
    pub rules_limit: u64,
    /// util+ of the busiest worker, from 0 to 1.
    pub util_plus: f64,
}

/// One worker.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct WorkerPicture {
    /// Its number.
    pub worker: usize,
    /// Receive queues that it polls.
    pub queues: usize,
    /// util, from 0 to 1.
    pub util: f64,
    /// util+, from 0 to 1.
    pub util_plus: f64,
    /// Packets received.
    pub packets: Option<f64>,
    /// Packets in a burst that was not empty, on average.
    pub burst: Option<f64>,
    /// Packets dropped.
    pub dropped: Option<f64>,
}

/// One port.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct PortPicture {
    /// Its name in the configuration.
    pub name: String,
    /// The driver, or the emulated NIC's profile in front of it.
    pub driver: String,
    /// `off`, `queue`, `mark` or `rewrite`.
    pub encoding: String,
    /// Whether the link is up.
    pub link_up: bool,
    /// Packets received.
    pub rx_packets: Option<f64>,
    /// Bytes received.
    pub rx_bytes: Option<f64>,
    /// Packets sent.
    pub tx_packets: Option<f64>,
    /// Bytes sent.
    pub tx_bytes: Option<f64>,
    /// Packets that the NIC sent on past the workers.
    pub past_workers: Option<f64>,
    /// Packets lost at the device: errors, missed for want of room, no buffer.
    pub lost: Option<f64>,
}

/// One service.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct ServicePicture {
    /// Its name in the configuration.
    pub name: String,
    /// VIP, port and protocol.
    pub vip: String,
    /// Whether it has left the configuration, and still carries connections.
    pub removed: bool,
    /// Whether it has no connections: bits of each packet choose the backend.
    pub stateless: bool,
    /// Connections of its backends.
    pub connections: u64,
    /// What it carries in a second.
    pub traffic: TrafficPicture,
    /// What becomes of its requests.
    pub requests: RequestsPicture,
    /// Its backends in the configuration.
    pub backends: usize,
    /// Those of them that get new connections.
    pub serving: usize,
    /// `announced` if routers are told of its VIP, or why they are not; `None` without
    /// `[announce]`.
    pub announced: Option<String>,
}

/// One backend of one service.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct BackendPicture {
    /// The service's name.
    pub service: String,
    /// Its address and port.
    pub address: String,
    /// Whether it gets new connections, or why not.
    pub state: BackendState,
    /// What more there is to say of its state, for instance why it is down.
    pub why: String,
    /// Its weight; 0 while it is drained.
    pub weight: u16,
    /// Its connections.
    pub connections: u64,
    /// What it carries in a second.
    pub traffic: TrafficPicture,
    /// What becomes of its requests.
    pub requests: RequestsPicture,
    /// Milliseconds to its first answer; `None` if the scheduler measures none.
    pub first_answer_ms: Option<f64>,
    /// The next hop's Ethernet address, or why there is none.
    pub next_hop: String,
}

/// Whether a backend gets new connections, or why not.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum BackendState {
    /// Its health checks fail.
    Down,
    /// Its next hop has no Ethernet address.
    NoNextHop,
    /// Its health checks have no result yet; it serves meanwhile.
    Unknown,
    /// It has been drained.
    Drained,
    /// It has left the configuration, and still carries connections.
    Removed,
    /// Its weight in the configuration is 0.
    NoWeight,
    /// It gets a part of its weight, in its slow start.
    Starting,
    /// It serves.
    #[default]
    Up,
}

impl BackendState {
    /// The words for people.
    #[must_use]
    pub const fn words(self) -> &'static str {
        match self {
            Self::Down => "down",
            Self::NoNextHop => "no next hop",
            Self::Unknown => "unknown",
            Self::Drained => "drained",
            Self::Removed => "removed",
            Self::NoWeight => "weight 0",
            Self::Starting => "starting",
            Self::Up => "up",
        }
    }

    /// Whether it gets new connections.
    #[must_use]
    pub const fn serves(self) -> bool {
        matches!(self, Self::Up | Self::Starting | Self::Unknown)
    }
}

/// A counter.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct CounterPicture {
    /// Its name.
    pub name: String,
    /// What it has counted since the start.
    pub total: u64,
    /// What it counts in a second.
    pub rate: Option<f64>,
}

impl Picture {
    /// The picture of `now`, with the rates since `before`. An earlier report of a load
    /// balancer that has been started again since gives none.
    #[must_use]
    pub fn between(before: Option<&Status>, now: &Status) -> Self {
        let seconds = before.map(|own| now.uptime_seconds - own.uptime_seconds);
        let span = before.zip(seconds).filter(|(_, seconds)| *seconds > 0.0);
        let span = Span { before: span.map(|(own, _)| own), seconds: seconds.unwrap_or_default() };
        let mut counters = span.counters(|own| &own.counters, now);
        counters.extend(span.counters(|own| &own.offload, now));
        Self {
            version: now.version.clone(),
            ready: now.ready,
            waiting_for: now.waiting_for.clone(),
            uptime_seconds: now.uptime_seconds,
            seconds: span.before.and(seconds),
            totals: span.totals(now),
            workers: now.workers.iter().map(|own| span.worker(own)).collect(),
            ports: now.ports.iter().map(|own| span.port(own)).collect(),
            services: now.services.iter().map(|own| span.service(own, now)).collect(),
            backends: span.all_backends(now),
            drops: span.counters(|own| &own.drops, now),
            counters,
        }
    }

    /// The same without backends, of which there may be very many.
    #[must_use]
    pub fn without_backends(self) -> Self {
        Self { backends: Vec::new(), ..self }
    }
}

/// The time since an earlier report.
struct Span<'a> {
    before: Option<&'a Status>,
    seconds: f64,
}

impl<'a> Span<'a> {
    /// The rate of what `count` reads.
    fn rate(&self, now: &Status, count: impl Fn(&Status) -> u64) -> Option<f64> {
        self.before.map(|before| self.per_second(count(before), count(now)))
    }

    fn per_second(&self, before: u64, now: u64) -> f64 {
        now.saturating_sub(before) as f64 / self.seconds
    }

    fn totals(&self, now: &Status) -> Totals {
        let received = |own: &Status| own.workers.iter().map(|one| one.totals.packets).sum();
        let named = |name| move |own: &Status| count(&own.counters, name);
        Totals {
            received: self.rate(now, received),
            sent: self.rate(now, named("tx_sent")),
            past_workers: self.rate(now, |own| own.nic.forwarded),
            dropped: self.rate(now, |own| own.drops.values().sum()),
            new_connections: self.rate(now, |own| own.connections.created),
            connections: now.connections.active,
            connections_limit: now.connections.capacity + now.connections.capacity_v6,
            rules: now.nic.rules,
            rules_limit: now.nic.capacity,
            util_plus: now.workers.iter().map(|own| own.util_plus).fold(0.0, f64::max),
        }
    }

    fn worker(&self, now: &WorkerStatus) -> WorkerPicture {
        let before = self.before.and_then(|own| own.workers.get(now.worker));
        let turn = before.map(|own| now.totals.since(own.totals));
        let bursts = turn.filter(|turn| turn.bursts > 0);
        WorkerPicture {
            worker: now.worker,
            queues: now.queues,
            util: now.util,
            util_plus: now.util_plus,
            packets: turn.map(|turn| turn.packets as f64 / self.seconds),
            burst: bursts.map(|turn| turn.packets as f64 / turn.bursts as f64),
            dropped: before.map(|own| self.per_second(own.dropped, now.dropped)),
        }
    }

    fn port(&self, now: &PortStatus) -> PortPicture {
        let before = self.before.and_then(|own| own.ports.iter().find(|old| old.name == now.name));
        let sum = |port: &PortStatus, names: &[&str]| -> u64 {
            names.iter().map(|name| count(&port.counters, name)).sum()
        };
        let rate =
            |names: &[&str]| before.map(|own| self.per_second(sum(own, names), sum(now, names)));
        PortPicture {
            name: now.name.clone(),
            driver: now.driver.clone(),
            encoding: now.encoding.clone(),
            link_up: now.link_up,
            rx_packets: rate(&["rx_packets"]),
            rx_bytes: rate(&["rx_bytes"]),
            tx_packets: rate(&["tx_packets"]),
            tx_bytes: rate(&["tx_bytes"]),
            past_workers: rate(&["past_workers"]),
            lost: rate(&["rx_errors", "rx_missed", "rx_no_mbuf", "tx_errors"]),
        }
    }

    fn service(&self, now: &ServiceStatus, all: &Status) -> ServicePicture {
        let same = |own: &&ServiceStatus| (own.id, own.generation) == (now.id, now.generation);
        let before = self.before.and_then(|before| before.services.iter().find(same));
        let requests = RequestsPicture::between(
            before.and_then(|own| own.requests.as_ref()),
            now.requests.as_ref(),
            self.seconds,
        );
        let before = before.map(|own| &own.traffic);
        let traffic = TrafficPicture::between(before, &now.traffic, self.seconds);
        let announced = announced(now, all);
        ServicePicture { announced, ..service(now, traffic, requests) }
    }

    fn all_backends(&self, now: &Status) -> Vec<BackendPicture> {
        let id = |own: &BackendStatus| (own.id, own.generation);
        let old = self.before.iter().flat_map(|before| &before.services).flat_map(backends);
        let old: BTreeMap<_, _> = old.map(|(own, _)| (id(own), own)).collect();
        let of = |service: &ServiceStatus| -> Vec<BackendPicture> {
            let picture = |(own, state): (&BackendStatus, _)| {
                let before = old.get(&id(own)).copied();
                let requests = RequestsPicture::between(
                    before.and_then(|own| own.requests.as_ref()),
                    own.requests.as_ref(),
                    self.seconds,
                );
                let before = before.map(|own| &own.traffic);
                let traffic = TrafficPicture::between(before, &own.traffic, self.seconds);
                backend_picture(service, own, state, (traffic, requests))
            };
            backends(service).map(picture).collect()
        };
        now.services.iter().flat_map(of).collect()
    }

    fn counters(
        &self,
        of: impl Fn(&Status) -> &BTreeMap<String, u64>,
        now: &Status,
    ) -> Vec<CounterPicture> {
        let counted = of(now).iter().filter(|(_, total)| **total > 0);
        let one = |(name, total): (&String, &u64)| CounterPicture {
            name: name.clone(),
            total: *total,
            rate: self.before.map(|before| self.per_second(count(of(before), name), *total)),
        };
        counted.map(one).collect()
    }
}

fn count(counters: &BTreeMap<String, u64>, name: &str) -> u64 {
    counters.get(name).copied().unwrap_or_default()
}

fn service(
    own: &ServiceStatus,
    traffic: TrafficPicture,
    requests: RequestsPicture,
) -> ServicePicture {
    let all = own.backends.iter().chain(&own.departed);
    ServicePicture {
        name: own.name.clone(),
        vip: own.vip.clone(),
        removed: own.removed,
        stateless: own.stateless.is_some(),
        connections: all.map(|backend| backend.active).sum(),
        traffic,
        requests,
        backends: own.backends.len(),
        serving: own.backends.iter().filter(|backend| state(backend).serves()).count(),
        announced: None,
    }
}

/// Whether routers are told of the service's VIP.
fn announced(own: &ServiceStatus, now: &Status) -> Option<String> {
    let vips = &now.announce.as_ref()?.vips;
    vips.iter().find(|vip| address(&own.vip) == vip.vip).map(|vip| vip.state.clone())
}

/// The address in a VIP with port and protocol: `192.0.2.1, port 80/tcp`.
fn address(vip: &str) -> &str {
    vip.split(',').next().unwrap_or_default()
}

/// The backends of a service, each with its state.
fn backends(own: &ServiceStatus) -> impl Iterator<Item = (&BackendStatus, BackendState)> {
    let present = own.backends.iter().map(move |backend| {
        let state = if own.removed { BackendState::Removed } else { state(backend) };
        (backend, state)
    });
    present.chain(own.departed.iter().map(|one| (one, BackendState::Removed)))
}

fn backend_picture(
    service: &ServiceStatus,
    own: &BackendStatus,
    state: BackendState,
    (traffic, requests): (TrafficPicture, RequestsPicture),
) -> BackendPicture {
    let why = match (state, &own.health) {
        (BackendState::Down, Some(health)) => health.last_failure.clone(),
        (BackendState::Starting, Some(health)) => format!("{} % of its weight", health.percent),
        (BackendState::NoNextHop, _) => own.next_hop.clone(),
        _ => String::new(),
    };
    BackendPicture {
        service: service.name.clone(),
        address: own.address.clone(),
        state,
        why,
        weight: own.weight,
        connections: own.active,
        traffic,
        requests,
        first_answer_ms: own.first_answer_ms,
        next_hop: own.next_hop.clone(),
    }
}

/// Of a backend in the configuration.
fn state(own: &BackendStatus) -> BackendState {
    let health = own.health.as_ref().map(|health| (health.state.as_str(), health.percent));
    // An Ethernet address is six pairs of digits with colons between.
    let is_resolved = own.next_hop.split(':').count() == 6;
    match health {
        _ if own.drained => BackendState::Drained,
        Some(("down", _)) => BackendState::Down,
        _ if !is_resolved => BackendState::NoNextHop,
        Some(("unknown", _)) => BackendState::Unknown,
        _ if own.weight == 0 => BackendState::NoWeight,
        Some((_, percent)) if percent < 100 => BackendState::Starting,
        _ => BackendState::Up,
    }
}

#[cfg(test)]
mod tests;
