//! A configuration as the test sees it, and random changes of it.
use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};

use config::Config;
use flow::{Mode, Scheduler};
use rand::Rng;
use rand::rngs::StdRng;
use rand::seq::{IndexedRandom, SliceRandom};
use testkit::ConfigText;
use wire::Transport;

/// VIPs that services may have: each family with each protocol.
pub(crate) const VIPS: usize = 8;
/// Names that services may have.
const NAMES: usize = 6;
/// Backends' last parts of the address.
const HOSTS: std::ops::Range<u8> = 11..19;

const SCHEDULERS: [Scheduler; 4] = [
    Scheduler::RoundRobin,
    Scheduler::WeightedRoundRobin,
    Scheduler::LeastConnections,
    Scheduler::Maglev,
];

/// The endpoint and protocol of VIP number `vip`.
pub(crate) fn endpoint(vip: usize) -> (SocketAddr, Transport) {
    let v6 = vip % 2 == 1;
    let (proto, port) = if vip / 2 % 2 == 0 { (Transport::Tcp, 80) } else { (Transport::Udp, 53) };
    let address =
        if v6 { format!("fd71::{:x}", 100 + vip) } else { format!("10.71.0.{}", 100 + vip) };
    (SocketAddr::new(address.parse().unwrap(), port), proto)
}

/// The address of backend `host` of a service at VIP number `vip`.
pub(crate) fn backend(vip: usize, host: u8) -> IpAddr {
    let text = if vip % 2 == 1 { format!("fd72::{host:x}") } else { format!("10.72.0.{host}") };
    text.parse().unwrap()
}

/// A service of the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Service {
    pub(crate) name: String,
    pub(crate) vip: usize,
    scheduler: Scheduler,
    /// In the order of the file: last part of the address, and weight.
    pub(crate) backends: Vec<(u8, u16)>,
}

/// The configuration that is in force, and what was drained by command.
#[derive(Clone, Debug)]
pub(crate) struct Model {
    mode: Mode,
    pub(crate) services: Vec<Service>,
    /// Prefixes behind a gateway of their own, which none of the clients is in.
    routes: BTreeSet<u8>,
    pool: bool,
    patience_s: u32,
    pub(crate) drained: BTreeSet<(String, IpAddr)>,
}

impl Model {
    pub(crate) fn new(mode: Mode, rng: &mut StdRng) -> Self {
        let mut model = Self {
            mode,
            services: Vec::new(),
            routes: BTreeSet::new(),
            pool: false,
            patience_s: 60,
            drained: BTreeSet::new(),
        };
        for _ in 0..3 {
            model.add_service(rng);
        }
        model
    }

    /// The service at VIP number `vip`.
    pub(crate) fn service(&self, vip: usize) -> Option<&Service> {
        self.services.iter().find(|service| service.vip == vip)
    }

    /// Backends that a new connection to VIP number `vip` may get.
    pub(crate) fn eligible(&self, vip: usize) -> Vec<u8> {
        let Some(service) = self.service(vip) else { return Vec::new() };
        let takes = |(host, weight): &&(u8, u16)| {
            *weight > 0 && !self.drained.contains(&(service.name.clone(), backend(vip, *host)))
        };
        service.backends.iter().filter(takes).map(|(host, _)| *host).collect()
    }

    fn add_service(&mut self, rng: &mut StdRng) {
        let names = (0..NAMES).map(|n| format!("service{n}"));
        let names: Vec<String> =
            names.filter(|name| self.services.iter().all(|own| own.name != *name)).collect();
        let vips: Vec<usize> = (0..VIPS).filter(|vip| self.service(*vip).is_none()).collect();
        let (Some(name), Some(vip)) = (names.choose(rng), vips.choose(rng)) else { return };
        let mut hosts: Vec<u8> = HOSTS.collect();
        hosts.shuffle(rng);
        hosts.truncate(rng.random_range(1..5));
        let backends = hosts.into_iter().map(|host| (host, rng.random_range(1..4))).collect();
        let scheduler = *SCHEDULERS.choose(rng).unwrap();
        let service = Service { name: name.clone(), vip: *vip, scheduler, backends };
        let place = rng.random_range(0..=self.services.len());
        self.services.insert(place, service);
    }

    /// One change of the file; none if the one that is drawn isn't possible.
    pub(crate) fn change(&mut self, rng: &mut StdRng) {
        let at = rng.random_range(0..self.services.len());
        let free: Vec<usize> = (0..VIPS).filter(|vip| self.service(*vip).is_none()).collect();
        let service = &mut self.services[at];
        let place = rng.random_range(0..service.backends.len());
        match rng.random_range(0..14) {
            0..2 => {
                let hosts =
                    HOSTS.filter(|host| service.backends.iter().all(|(own, _)| own != host));
                let hosts: Vec<u8> = hosts.collect();
                if let Some(host) = hosts.choose(rng) {
                    service.backends.insert(place, (*host, rng.random_range(1..4)));
                }
            }
            2..4 => {
                if service.backends.len() > 1 {
                    service.backends.remove(place);
                }
            }
            4 => service.backends[place].1 = rng.random_range(0..5),
            5 => service.backends.shuffle(rng),
            6 => self.add_service(rng),
            7 => {
                if self.services.len() > 1 {
                    self.services.remove(at);
                }
            }
            8 => self.services.shuffle(rng),
            9 => service.scheduler = *SCHEDULERS.choose(rng).unwrap(),
            10 => {
                // Another service of the same name.
                if let Some(vip) = free.choose(rng) {
                    service.vip = *vip;
                }
            }
            11 => {
                let prefix = rng.random_range(0..3);
                if !self.routes.remove(&prefix) {
                    self.routes.insert(prefix);
                }
            }
            12 => self.pool = !self.pool,
            _ => self.patience_s = rng.random_range(60..90),
        }
        self.keep_possible();
    }

    /// Every service has a backend with a weight, and what was drained by
    /// command is forgotten with its backend or its weight.
    fn keep_possible(&mut self) {
        for service in &mut self.services {
            if service.backends.iter().all(|(_, weight)| *weight == 0) {
                service.backends[0].1 = 1;
            }
        }
        let has = |(name, address): &(String, IpAddr)| {
            let service = self.services.iter().find(|service| service.name == *name);
            service.is_some_and(|own| {
                let mut takes = own.backends.iter().filter(|(_, weight)| *weight > 0);
                takes.any(|(host, _)| backend(own.vip, *host) == *address)
            })
        };
        let drained = self.drained.iter().filter(|one| has(one)).cloned().collect();
        self.drained = drained;
    }

    /// The file.
    pub(crate) fn config(&self) -> Config {
        let seconds = self.patience_s;
        let mut text = ConfigText::two_ports("mtu = 1600", "")
            .table("[workers]", "count = 2")
            .table("[offload]", "admission = \"all\"")
            .table(
                "[conntrack]",
                &format!(
                    "connections = 1024\nconnections_v6 = 1024\ntcp_syn = \"{seconds}s\"\n\
                     tcp_established = \"{seconds}s\"\nudp = \"{seconds}s\""
                ),
            );
        for n in &self.routes {
            text = text.route(&format!("10.80.{n}.0/24"), "10.71.0.253");
        }
        if self.pool {
            let more = "name = \"spare\"\naddresses = [\"10.72.0.200\"]\nports = \"40000-40099\"";
            text = text.table("[[pool]]", more);
        }
        for Service { name, vip, scheduler, backends } in &self.services {
            let (endpoint, proto) = endpoint(*vip);
            let mode = self.mode;
            let more = format!("mode = \"{mode}\"\nscheduler = \"{scheduler}\"\nmaglev_size = 809");
            text = text.service(name, endpoint.ip(), Some(endpoint.port()), proto, &more);
            for (host, weight) in backends {
                let port = (mode == Mode::Nat).then_some(8080);
                text = text.backend(backend(*vip, *host), port, &format!("weight = {weight}"));
            }
        }
        text.parse()
    }
}
