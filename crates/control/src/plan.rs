//! What is wanted.
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use config::Config;
use conntrack::EmbryonicLimits;
use service::{BackendSpec, Health, ServiceSpec, Timeouts};
use wire::Mac;

use crate::step::{BackendKey, Order, Step};
use crate::{Drained, Fixed, ordered};

/// The whole connection table, in percent.
pub(crate) const WHOLE: u8 = 100;

/// A port's name and a VLAN: what makes an interface the same one in another
/// configuration.
pub type InterfaceKey = (String, Option<u16>);

/// Everything that a configuration, and the commands given since, want.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// What is balanced, in the order of the file.
    pub services: Vec<ServiceSpec>,
    /// Backends that were drained by a command.
    pub drained: BTreeSet<Drained>,
    /// How the backends of services are checked, by the service's name.
    pub checks: BTreeMap<String, config::Health>,
    /// Backends of checked services that have not all of their weight.
    pub health: BTreeMap<(String, BackendKey), Health>,
    /// Networks that the load balancer is attached to.
    pub interfaces: Vec<config::Interface>,
    /// How everything else is reached. Of two for one prefix the first counts.
    pub routes: Vec<config::Route>,
    /// Neighbours whose Ethernet addresses are given.
    pub neighbours: BTreeMap<IpAddr, Mac>,
    /// How long connections live without packets, of services without timeouts of
    /// their own.
    pub timeouts: Timeouts,
    /// How many connections may be embryonic.
    pub embryonic: EmbryonicLimits,
    /// By service, in percent: the part of the connection table that it may take,
    /// if not the whole.
    pub shares: BTreeMap<String, u8>,
    /// Of the packets matched by queue, one in so many is looked up.
    pub sample: u32,
    /// How long workers remember fragments of a datagram, in milliseconds.
    pub fragment_timeout_ms: u64,
    /// What is answered to packets that go no further.
    pub answers: config::Answers,
    /// How long an answer of a neighbour is good for, in milliseconds.
    pub refresh_ms: u32,
    /// Whether known Ethernet addresses stay, whatever other stations claim.
    pub pin: bool,
    /// What is as it was at the start.
    pub fixed: Fixed,
}

impl Plan {
    /// What `config` wants. Nothing is drained.
    #[must_use]
    pub fn of(config: &Config) -> Self {
        let neighbours = config.static_neighbours.iter();
        let mut routes: Vec<config::Route> = Vec::with_capacity(config.routes.len());
        for route in &config.routes {
            if !routes.contains(route) {
                routes.push(route.clone());
            }
        }
        let shares = config.services.iter().filter(|own| own.share < WHOLE);
        let checks = config.services.iter();
        let checks = checks.filter_map(|own| Some((own.name.clone(), own.health.clone()?)));
        Self {
            services: config.service_specs(),
            drained: BTreeSet::new(),
            checks: checks.collect(),
            health: BTreeMap::new(),
            interfaces: config.interfaces.clone(),
            routes,
            neighbours: neighbours.map(|given| (given.address, given.mac)).collect(),
            timeouts: config.conntrack.timeouts(&config::Timeouts::default()),
            embryonic: EmbryonicLimits {
                service_percent: config.conntrack.embryonic_service,
                source_percent: config.conntrack.embryonic_source,
            },
            shares: shares.map(|own| (own.name.clone(), own.share)).collect(),
            sample: config.offload.sample,
            fragment_timeout_ms: millis(config.fragments.timeout).into(),
            refresh_ms: millis(config.neighbours.refresh),
            pin: config.neighbours.pin,
            answers: config.answers,
            fixed: Fixed::of(config),
        }
    }

    /// The plan in force before the start of a load balancer that is to have
    /// what is fixed in `self`: no service, no interface.
    #[must_use]
    pub fn nothing(&self) -> Self {
        Self {
            services: Vec::new(),
            drained: BTreeSet::new(),
            checks: BTreeMap::new(),
            health: BTreeMap::new(),
            interfaces: Vec::new(),
            routes: Vec::new(),
            neighbours: BTreeMap::new(),
            timeouts: self.timeouts,
            embryonic: self.embryonic,
            shares: BTreeMap::new(),
            sample: self.sample,
            fragment_timeout_ms: self.fragment_timeout_ms,
            refresh_ms: self.refresh_ms,
            pin: self.pin,
            answers: self.answers,
            fixed: self.fixed.clone(),
        }
    }

    /// The plan with those of `drained` that it can have: their backends are in
    /// it, with a weight.
    #[must_use]
    pub fn with_drained(self, drained: &BTreeSet<Drained>) -> Self {
        let drained = drained.iter().filter(|one| self.can_drain(one)).cloned().collect();
        Self { drained, ..self }
    }

    /// The plan with that of `health` which it can have: its backends are in it, and
    /// are checked.
    #[must_use]
    pub fn with_health(self, health: &BTreeMap<(String, BackendKey), Health>) -> Self {
        let fits = |(service, backend): &(String, BackendKey), health: Health| {
            let spec = self.service(service).filter(|_| self.checks.contains_key(service));
            health != Health::UP && spec.is_some_and(|spec| keys(spec).any(|own| own == *backend))
        };
        let health = health.iter().filter(|(key, health)| fits(key, **health));
        let health = health.map(|(key, health)| (key.clone(), *health)).collect();
        Self { health, ..self }
    }

    /// Whether `one` names a backend that has a weight in the configuration.
    pub(crate) fn can_drain(&self, one: &Drained) -> bool {
        let backends = self.service(&one.service).map(|service| &service.backends);
        backends.is_some_and(|all| all.iter().any(|b| b.address == one.backend && b.weight > 0))
    }

    /// The service with this name.
    #[must_use]
    pub fn service(&self, name: &str) -> Option<&ServiceSpec> {
        self.services.iter().find(|service| service.name == name)
    }

    /// The plan that follows this one by `step`. A step that doesn't fit changes
    /// nothing.
    #[must_use]
    pub fn after(mut self, step: &Step) -> Self {
        match step {
            Step::AddService(spec) => self.services.push(spec.clone()),
            Step::RemoveService(name) => self.services.retain(|service| service.name != *name),
            Step::ChangeService(spec) => {
                if let Some(service) = self.service_mut(&spec.name) {
                    let backends = std::mem::take(&mut service.backends);
                    *service = ServiceSpec { backends, ..spec.clone() };
                }
            }
            Step::AddBackend { service, backend } => {
                if let Some(service) = self.service_mut(service) {
                    service.backends.push(backend.clone());
                }
            }
            Step::ChangeBackend { service, backend } => {
                if let Some(service) = self.service_mut(service) {
                    let key = BackendKey::of(service, backend);
                    if let Some(place) = place_of(service, key) {
                        *place = backend.clone();
                    }
                }
            }
            Step::RemoveBackend { service, backend } => {
                if let Some(service) = self.service_mut(service) {
                    let keys: Vec<_> = keys(service).collect();
                    let mut keys = keys.iter();
                    service.backends.retain(|_| keys.next() != Some(backend));
                }
            }
            Step::Drain(one) => {
                self.drained.insert(one.clone());
            }
            Step::Restore(one) => {
                self.drained.remove(one);
            }
            Step::SetChecks(service, checks) => {
                self.checks.remove(service);
                self.checks.extend(checks.clone().map(|checks| (service.clone(), *checks)));
            }
            Step::SetHealth { service, backend, health } => {
                self.health.insert((service.clone(), *backend), *health);
            }
            Step::AddInterface(interface) => self.interfaces.push(interface.clone()),
            Step::ChangeInterface(interface) => {
                let key = interface_key(interface);
                for own in self.interfaces.iter_mut().filter(|own| interface_key(own) == key) {
                    *own = interface.clone();
                }
            }
            Step::RemoveInterface(key) => self.interfaces.retain(|own| interface_key(own) != *key),
            Step::AddRoute(route) => self.routes.push(route.clone()),
            Step::RemoveRoute(route) => self.routes.retain(|own| own != route),
            Step::SetNeighbour(address, mac) => {
                self.neighbours.insert(*address, *mac);
            }
            Step::RemoveNeighbour(address) => {
                self.neighbours.remove(address);
            }
            Step::SetTimeouts(timeouts) => self.timeouts = *timeouts,
            Step::SetEmbryonic(limits) => self.embryonic = *limits,
            Step::SetShare(service, percent) => {
                self.shares.insert(service.clone(), *percent);
                self.shares.retain(|_, percent| *percent < WHOLE);
            }
            Step::SetSample(sample) => self.sample = *sample,
            Step::SetRefresh(refresh_ms) => self.refresh_ms = *refresh_ms,
            Step::SetPin(pin) => self.pin = *pin,
            Step::SetFragmentTimeout(timeout_ms) => self.fragment_timeout_ms = *timeout_ms,
            Step::SetAnswers(answers) => self.answers = *answers,
            Step::Reorder(order) => self.reorder(order),
        }
        let (drained, health) =
            (std::mem::take(&mut self.drained), std::mem::take(&mut self.health));
        let names: BTreeSet<&str> = self.services.iter().map(|own| own.name.as_str()).collect();
        self.checks.retain(|service, _| names.contains(service.as_str()));
        self.with_drained(&drained).with_health(&health)
    }

    fn reorder(&mut self, order: &Order) {
        match order {
            Order::Services(names) => {
                ordered::sort(&mut self.services, names, |service| service.name.clone());
            }
            Order::Backends(service, wanted) => {
                let Some(service) = self.service_mut(service) else { return };
                let port = service.port;
                ordered::sort(&mut service.backends, wanted, |own| BackendKey::with(own, port));
            }
            Order::Interfaces(keys) => ordered::sort(&mut self.interfaces, keys, interface_key),
            Order::Routes(routes) => {
                ordered::sort(&mut self.routes, routes, config::Route::clone);
            }
        }
    }

    fn service_mut(&mut self, name: &str) -> Option<&mut ServiceSpec> {
        self.services.iter_mut().find(|service| service.name == name)
    }
}

/// What makes `interface` the same one in another configuration.
pub(crate) fn interface_key(interface: &config::Interface) -> InterfaceKey {
    (interface.port.clone(), interface.vlan)
}

/// The keys of a service's backends, in their order.
pub(crate) fn keys(service: &ServiceSpec) -> impl Iterator<Item = BackendKey> {
    service.backends.iter().map(|own| BackendKey::of(service, own))
}

fn place_of(service: &mut ServiceSpec, key: BackendKey) -> Option<&mut BackendSpec> {
    let place = keys(service).position(|own| own == key)?;
    service.backends.get_mut(place)
}

fn millis(time: std::time::Duration) -> u32 {
    u32::try_from(time.as_millis()).unwrap_or(u32::MAX)
}
