//! A configuration as the test sees it, and random changes of it.
use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};

use config::Config;
use flow::{Mode, OnRemove, Scheduler};
use rand::Rng;
use rand::rngs::StdRng;
use rand::seq::{IndexedRandom, SliceRandom};
use testkit::ConfigText;
use wire::Transport;

/// What services do with connections of removed backends. RSTs in a tunnel are left to
/// `reset_on_remove.rs`.
fn any_on_remove(mode: Mode, rng: &mut StdRng) -> OnRemove {
    let mut choices = vec![OnRemove::Keep, OnRemove::Move];
    choices.extend((mode != Mode::Ipip).then_some(OnRemove::Reset));
    *choices.choose(rng).unwrap()
}

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
    on_remove: OnRemove,
    /// In the order of the file: last part of the address, and weight.
    pub(crate) backends: Vec<(u8, u16)>,
}

/// What makes a service the same one in another file: its name, its VIP, and how
/// often its pool had lost an address.
pub(crate) type Identity = (String, usize, u32);

/// The configuration that is in force, and what was drained by command.
#[derive(Clone, Debug)]
pub(crate) struct Model {
    mode: Mode,
    pub(crate) services: Vec<Service>,
    /// Prefixes behind a gateway of their own, which none of the clients is in.
    routes: BTreeSet<u8>,
    pool: bool,
    /// Whether the pool of `fullnat` services has a third address, and how often
    /// it has lost that.
    wider: bool,
    losses: u32,
    /// Networks in VLANs of the inside port, and whether the outside interface
    /// has a third address.
    vlans: BTreeSet<u8>,
    third: bool,
    /// Backends' numbers whose Ethernet addresses the file has.
    neighbours: BTreeSet<u8>,
    patience_s: u32,
    pub(crate) drained: BTreeSet<(String, IpAddr)>,
    /// By service, in force or gone: what its last file said of the connections
    /// of removed backends.
    on_remove: BTreeMap<Identity, OnRemove>,
}

impl Model {
    pub(crate) fn new(mode: Mode, rng: &mut StdRng) -> Self {
        let mut model = Self {
            mode,
            services: Vec::new(),
            routes: BTreeSet::new(),
            pool: false,
            wider: false,
            losses: 0,
            vlans: BTreeSet::new(),
            third: false,
            neighbours: BTreeSet::new(),
            patience_s: 60,
            drained: BTreeSet::new(),
            on_remove: BTreeMap::new(),
        };
        for _ in 0..3 {
            model.add_service(rng);
        }
        model.in_force();
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

    /// The service that new connections to VIP number `vip` belong to.
    pub(crate) fn identity(&self, vip: usize) -> Option<Identity> {
        let losses = if self.mode == Mode::FullNat { self.losses } else { 0 };
        self.service(vip).map(|service| (service.name.clone(), vip, losses))
    }

    /// What is to become of the connections of backend `host` of the service `of`, if
    /// that has left the file.
    pub(crate) fn leaves(&self, of: &Identity, host: u8) -> Option<OnRemove> {
        let stays = self.identity(of.1).as_ref() == Some(of)
            && self.service(of.1).unwrap().backends.iter().any(|(own, _)| *own == host);
        (!stays).then(|| self.on_remove[of])
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
        let on_remove = any_on_remove(self.mode, rng);
        let service = Service { name: name.clone(), vip: *vip, scheduler, on_remove, backends };
        let place = rng.random_range(0..=self.services.len());
        self.services.insert(place, service);
    }

    /// One change of the file; none if the one that is drawn isn't possible.
    pub(crate) fn change(&mut self, rng: &mut StdRng) {
        let at = rng.random_range(0..self.services.len());
        let free: Vec<usize> = (0..VIPS).filter(|vip| self.service(*vip).is_none()).collect();
        let service = &mut self.services[at];
        let place = rng.random_range(0..service.backends.len());
        match rng.random_range(0..19) {
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
            11 => toggle(&mut self.routes, rng.random_range(0..3)),
            12 => self.pool = !self.pool,
            13 => service.on_remove = any_on_remove(self.mode, rng),
            14 => {
                self.losses += u32::from(self.wider);
                self.wider = !self.wider;
            }
            15 => toggle(&mut self.vlans, rng.random_range(2..5)),
            16 => toggle(&mut self.neighbours, rng.random_range(HOSTS)),
            17 => self.third = !self.third,
            _ => self.patience_s = rng.random_range(60..90),
        }
        self.keep_possible();
    }

    /// Every service has a backend with a weight.
    fn keep_possible(&mut self) {
        for service in &mut self.services {
            if service.backends.iter().all(|(_, weight)| *weight == 0) {
                service.backends[0].1 = 1;
            }
        }
    }

    /// The file is in force: what was drained by command is forgotten with its
    /// backend or its weight.
    pub(crate) fn in_force(&mut self) {
        for service in &self.services {
            let identity = self.identity(service.vip).unwrap();
            self.on_remove.insert(identity, service.on_remove);
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
        let mut outside = vec!["10.71.0.1/24", "fd71::1/64"];
        outside.extend(self.third.then_some("10.78.0.1/24"));
        let mut text = ConfigText::new()
            .port("outside", "")
            .port("inside", "mtu = 1600")
            .interface("outside", &outside, "")
            .interface("inside", &["10.72.0.1/24", "fd72::1/64"], "")
            .gateways()
            .table("[workers]", "count = 2")
            .table("[offload]", "admission = \"all\"")
            // What goes nowhere is counted, not answered.
            .table("[answers]", "closed_ports = \"drop\"")
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
        for n in &self.vlans {
            text = text.interface("inside", &[&format!("10.79.{n}.1/24")], &format!("vlan = {n}"));
        }
        for host in &self.neighbours {
            for address in [backend(0, *host), backend(1, *host)] {
                let more = format!("address = \"{address}\"\nmac = \"02:77:00:00:00:{host:02x}\"");
                text = text.table("[[neighbour]]", &more);
            }
        }
        if self.mode == Mode::FullNat {
            let mut addresses = vec!["10.72.0.201", "fd72::201"];
            addresses.extend(self.wider.then_some("10.72.0.202"));
            text = text.table("[[pool]]", &format!("name = \"local\"\naddresses = {addresses:?}"));
        }
        for Service { name, vip, scheduler, on_remove, backends } in &self.services {
            let (endpoint, proto) = endpoint(*vip);
            let mode = self.mode;
            let mut more = format!(
                "mode = \"{mode}\"\nscheduler = \"{scheduler}\"\nmaglev_size = 809\n\
                 on_remove = \"{on_remove}\"\nrefuse = \"drop\"\n"
            );
            if mode == Mode::FullNat {
                more += "pool = \"local\"\n";
            }
            text = text.service(name, endpoint.ip(), Some(endpoint.port()), proto, &more);
            for (host, weight) in backends {
                let port = (!mode.is_one_way()).then_some(8080);
                text = text.backend(backend(*vip, *host), port, &format!("weight = {weight}"));
            }
        }
        text.parse()
    }
}

/// Adds `value`, or removes it.
fn toggle(set: &mut BTreeSet<u8>, value: u8) {
    if !set.remove(&value) {
        set.insert(value);
    }
}
