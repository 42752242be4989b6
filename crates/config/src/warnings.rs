//! What is possible, but perhaps not meant.
use std::collections::HashMap;
use std::fmt;

use flow::{CardProfile, Encoding, EncodingChoice, Mode, Scheduler, StatelessKey, alternatives};

use crate::checks::Reach;
use crate::{Config, Service};

/// Something that is possible, but perhaps not meant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Warning {
    /// The key, as `service.web.mode`.
    pub key: String,
    /// What follows from it.
    pub text: String,
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.key, self.text)
    }
}

impl Config {
    /// What is possible, but perhaps not meant. Of a configuration that
    /// [`Config::load`] or [`Config::parse`] gave.
    #[must_use]
    pub fn warnings(&self) -> Vec<Warning> {
        let mut warnings = Vec::new();
        if self.services.is_empty() {
            warnings
                .push(warning("service".to_owned(), "there is no service; nothing is balanced"));
        }
        for service in &self.services {
            self.service_warnings(service, &mut warnings);
        }
        self.sharing_warnings(&mut warnings);
        self.queue_warnings(&mut warnings);
        self.rewrite_warnings(&mut warnings);
        for pool in &self.pools {
            if !self.services.iter().any(|service| service.pool.as_ref() == Some(&pool.name)) {
                let text = "no service uses this pool";
                warnings.push(warning(format!("pool.{}", pool.name), text));
            }
        }
        warnings
    }

    fn service_warnings(&self, service: &Service, warnings: &mut Vec<Warning>) {
        let mut add = |key: &str, text: String| {
            warnings.push(warning(format!("service.{}.{key}", service.name), text));
        };
        if service.backends.iter().all(|backend| backend.weight == 0) {
            add("backend", "all backends have weight 0; new connections are refused".to_owned());
        }
        if !service.stateless {
            scheduler_warnings(service, &mut add);
        }
        if self.reach(service.vip) == Reach::Routed {
            add(
                "vip",
                format!(
                    "{} is not on-link at an interface; routers must send its packets here",
                    service.vip
                ),
            );
        }
        if service.mode == Mode::FullNat
            && self.offload.encoding == EncodingChoice::Fixed(Encoding::Queue)
        {
            add("mode", "with the encoding 'queue' connections of mode fullnat stay in software; a queue cannot tell their source addresses, a mark can".to_owned());
        }
        if service.stateless
            && service.by == StatelessKey::Source
            && self.cards().any(|card| !card.rewrites())
        {
            let cards = CardProfile::ALL.iter().filter(|card| !card.rewrites());
            let text = format!(
                "a NIC of profile {} cannot balance by address; software does it on that port",
                alternatives(cards)
            );
            add("stateless", text);
        }
        let offloads = self.offload.encoding != EncodingChoice::Fixed(Encoding::Off);
        if service.vip.is_ipv6() && offloads && !service.stateless {
            if let Some(card) = self.cards().find(|card| !card.matches_ipv6()) {
                let text = format!(
                    "the {card} matches IPv4 only; the connections of this service stay in software"
                );
                add("vip", text);
            }
        }
    }

    /// The profiles of the emulated NICs.
    fn cards(&self) -> impl Iterator<Item = CardProfile> {
        self.ports.iter().filter_map(|port| port.nic.as_ref()).map(|nic| nic.profile)
    }

    /// With the encoding `rewrite` a card that cannot rewrite gets no rules.
    fn rewrite_warnings(&self, warnings: &mut Vec<Warning>) {
        if self.offload.encoding != EncodingChoice::Fixed(Encoding::Rewrite) {
            return;
        }
        for port in &self.ports {
            if let Some(card) = port.nic.as_ref().and_then(|nic| no_rewrite(nic.profile)) {
                warnings.push(warning(format!("port.{}.nic.profile", port.name), card));
            }
        }
    }

    /// Of services of mode `nat` whose answers can't be told apart without a
    /// connection: they come from the same address and port.
    fn sharing_warnings(&self, warnings: &mut Vec<Warning>) {
        let mut first = HashMap::new();
        for service in self.services.iter().filter(|service| service.mode == Mode::Nat) {
            let other = service.backends.iter().find_map(|own| {
                let at = |port| (own.address, service.protocol.transport(), port);
                let port = own.port.or(service.port);
                // A service of any port has an answer from each.
                let ports = [port, None, Some(0)];
                let ports = if port.is_none() { &ports[2..] } else { &ports[..2] };
                ports.iter().find_map(|port| first.get(&at(*port)).map(|other| (own, *other)))
            });
            if let Some((own, other)) = other {
                let other: &Service = other;
                let text = format!(
                    "service '{}' has the backend {} at the same port: while the connection table is full, clients whose answers would be taken for those of the other service are refused ({} the last), and a client's port serves one of both at a time; give each service a port of its own at the backend, or use the mode fullnat",
                    other.name,
                    own.address,
                    later(service, other)
                );
                let key = format!("service.{}.backend", service.name);
                warnings.push(warning(key, text));
            }
            for own in &service.backends {
                let port = own.port.or(service.port);
                let at = (own.address, service.protocol.transport(), port);
                first.entry(at).or_insert(service);
                // That a service of some port is there, for those of any.
                first
                    .entry((own.address, service.protocol.transport(), Some(0)))
                    .or_insert(service);
            }
        }
    }

    /// With the encoding `queue` each backend of each service needs a queue,
    /// and so do each service's answers if they pass here, besides every
    /// worker's default queue.
    fn queue_warnings(&self, warnings: &mut Vec<Warning>) {
        if self.offload.encoding != EncodingChoice::Fixed(Encoding::Queue) {
            return;
        }
        for port in &self.ports {
            let v6 = port.nic.as_ref().is_none_or(|nic| nic.profile.matches_ipv6());
            let services = self.services.iter().filter(|service| {
                !service.stateless && service.mode != Mode::FullNat && (v6 || service.vip.is_ipv4())
            });
            let answers = |service: &Service| usize::from(!service.mode.is_one_way());
            let needed: usize =
                services.map(|service| service.backends.len() + answers(service)).sum();
            let queues = port.receive_queues(self.workers.queues);
            let free = usize::from(queues.saturating_sub(self.workers.count));
            if needed > free {
                let key = match port.nic {
                    Some(_) => format!("port.{}.nic.queues", port.name),
                    None => "workers.queues".to_owned(),
                };
                let text = format!(
                    "the encoding 'queue' needs {needed} queues on port '{}', one for each backend of a service and one for each service's answers; {queues} less {} for the workers leave {free}, so some connections stay in software",
                    port.name, self.workers.count
                );
                warnings.push(warning(key, text));
            }
        }
    }
}

/// What follows from the encoding `rewrite` for a port with a NIC of this profile;
/// `None` if the card can rewrite.
#[must_use]
pub fn no_rewrite(card: CardProfile) -> Option<String> {
    let able = CardProfile::ALL.iter().filter(|card| card.rewrites());
    (!card.rewrites()).then(|| {
        format!(
            "a NIC of profile {card} cannot rewrite packets, so with the encoding 'rewrite' the port's connections stay in software; take the encoding auto, mark or queue, or a NIC of profile {}",
            alternatives(able)
        )
    })
}

/// Of two services whose answers look the same, the name of that which gives way.
fn later<'a>(one: &'a Service, other: &'a Service) -> &'a str {
    let rank = |own: &Service| (own.port.is_none(), own.vip, own.port);
    if rank(one) > rank(other) { &one.name } else { &other.name }
}

/// What the scheduler of a service with connections forgets or ignores.
fn scheduler_warnings(service: &Service, add: &mut impl FnMut(&str, String)) {
    let scheduler = service.scheduler;
    if scheduler.remembers() {
        let steady = Scheduler::ALL.iter().filter(|other| !other.remembers());
        let text = format!(
            "{scheduler} depends on what happened before: connections that are not in the table, after a restart, after their timeout or while the table is full, mostly go to another backend, which resets them; {} choose the same one again",
            alternatives(steady)
        );
        add("scheduler", text);
    }
    let mut weights = service.backends.iter().map(|own| own.weight).filter(|weight| *weight > 0);
    let first = weights.next();
    if !scheduler.weighs() && weights.any(|weight| Some(weight) != first) {
        let weighing = Scheduler::ALL.iter().filter(|other| other.weighs());
        let text = format!(
            "{scheduler} gives all backends with a weight the same share; use {}",
            alternatives(weighing)
        );
        add("scheduler", text);
    }
}

fn warning(key: String, text: impl Into<String>) -> Warning {
    Warning { key, text: text.into() }
}
