//! A load balancer without threads and devices, and random configurations of it.
#![allow(dead_code, reason = "each test file uses a part")]
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;
use std::sync::Arc;

use config::Config;
use control::{Control, Drained, Refusal, Reloaded};
use proptest::prelude::*;
use setup::{PortFacts, Seed};
use state::Shared;
use wire::Mac;

/// The file that every configuration comes from.
pub(crate) const FILE: &str = "test.toml";

/// What never changes.
pub(crate) const PORTS: &str = "[[port]]\nname = \"p0\"\ndevice = \"net_null0\"\n\
    [[port]]\nname = \"p1\"\ndevice = \"net_null1\"\n[conntrack]\nconnections = 1024\n\
    connections_v6 = 64\n";

/// The load balancer.
pub(crate) struct Balancer {
    pub(crate) shared: Arc<Shared>,
    pub(crate) control: Control,
    now_ms: u64,
}

impl Balancer {
    pub(crate) fn new(text: &str) -> Self {
        let config = Config::parse(text, FILE).unwrap_or_else(|errors| panic!("{errors}\n{text}"));
        let fact = |last| PortFacts { mac: Mac([2, 0, 0, 0, 0, last]), queues: 2, ring: 64 };
        let (shared, control) =
            setup::start(&config, &[fact(1), fact(2)], false, Seed([1; 32])).unwrap();
        Self { shared: Arc::new(shared), control, now_ms: 0 }
    }

    pub(crate) fn reload(&mut self, text: &str) -> Result<Reloaded, Refusal> {
        self.control.reload(&self.shared, (Path::new(FILE), text), false)
    }

    pub(crate) fn drain(&mut self, service: &str, backend: &str, drain: bool) {
        let one = Drained { service: service.to_owned(), backend: backend.parse().unwrap() };
        self.control.steer(&self.shared, &one, drain).unwrap();
    }

    /// Lets departed backends go that have no connection.
    pub(crate) fn settle(&mut self) {
        for _ in 0..200 {
            self.now_ms += 100;
            self.control.tick(&self.shared, self.now_ms);
        }
    }
}

/// One service of a random configuration.
#[derive(Clone, Debug)]
pub(crate) struct RandomService {
    mode: &'static str,
    port: u16,
    scheduler: &'static str,
    /// `tcp_established` in seconds, if the service has one of its own.
    timeout: Option<u8>,
    /// By host: the weight.
    hosts: Vec<(u8, u16)>,
}

/// A random configuration.
#[derive(Clone, Debug)]
pub(crate) struct Random {
    services: Vec<(u8, RandomService)>,
    gateways: Vec<u8>,
    neighbours: BTreeMap<u8, u8>,
    vlan: Option<(u16, bool)>,
    ports_swapped: bool,
    tcp_syn: u8,
    pool: u8,
}

impl Random {
    /// As a file.
    pub(crate) fn text(&self) -> String {
        let mut text = String::new();
        let ports = if self.ports_swapped { [1, 0] } else { [0, 1] };
        for port in ports {
            let _ = writeln!(text, "[[port]]\nname = \"p{port}\"\ndevice = \"net_null{port}\"");
        }
        let _ = writeln!(
            text,
            "[conntrack]\nconnections = 1024\nconnections_v6 = 64\ntcp_syn = \"{0}s\"\n\
             embryonic_source = {0}\n\
             [neighbours]\nrefresh = \"{0}s\"\n\
             [fragments]\ntimeout = \"{0}s\"\n\
             [[interface]]\nport = \"p0\"\naddresses = [\"10.71.0.1/24\"]\n\
             [[interface]]\nport = \"p1\"\naddresses = [\"10.72.0.1/24\"]",
            self.tcp_syn + 1,
        );
        if let Some((vlan, two)) = self.vlan {
            let more = if two { ", \"10.74.0.1/24\"" } else { "" };
            let _ = writeln!(
                text,
                "[[interface]]\nport = \"p1\"\nvlan = {vlan}\naddresses = [\"10.73.0.1/24\"{more}]"
            );
        }
        for (place, gateway) in self.gateways.iter().enumerate() {
            let _ = writeln!(
                text,
                "[[route]]\nprefix = \"10.{}.0.0/16\"\nvia = \"10.71.0.{gateway}\"",
                100 + place
            );
        }
        for (host, last) in &self.neighbours {
            let _ = writeln!(
                text,
                "[[neighbour]]\naddress = \"10.72.0.{host}\"\nmac = \"02:00:00:00:00:{last:02x}\""
            );
        }
        let _ = writeln!(
            text,
            "[[pool]]\nname = \"snat\"\naddresses = [\"10.72.0.{}\"]",
            200 + self.pool
        );
        for (number, service) in &self.services {
            service.write(*number, &mut text);
        }
        text
    }
}

impl RandomService {
    fn write(&self, number: u8, text: &mut String) {
        let Self { mode, port, scheduler, timeout, hosts } = self;
        let stateless = *mode == "stateless";
        let _ = writeln!(
            text,
            "[[service]]\nname = \"s{number}\"\nvip = \"10.71.0.{}\"\nport = {port}\n\
             protocol = \"tcp\"\nmode = \"{}\"\nscheduler = \"{scheduler}\"\nmaglev_size = 1009\n\
             share = {}",
            100 + number,
            if stateless { "dsr" } else { mode },
            if *port == 80 { 100 } else { 50 },
        );
        if stateless {
            text.push_str("stateless = true\n");
        }
        if let Some(seconds) = timeout {
            let _ = writeln!(text, "timeouts = {{ tcp_established = \"{seconds}s\" }}");
        }
        if *mode == "fullnat" {
            text.push_str("pool = \"snat\"\n");
        }
        for (host, weight) in hosts {
            let _ = writeln!(
                text,
                "[[service.backend]]\naddress = \"10.72.0.{host}\"\nweight = {weight}"
            );
        }
    }
}

/// Random configurations that agree in what is fixed.
pub(crate) fn random() -> impl Strategy<Value = Random> {
    let hosts = prop::collection::btree_map(10_u8..16, 0_u16..4, 1..5);
    let hosts = (hosts, any::<u64>()).prop_map(|(hosts, seed)| {
        let mut hosts: Vec<(u8, u16)> = hosts.into_iter().collect();
        hosts.sort_by_key(|(host, _)| seed.wrapping_mul(u64::from(*host)) % 7);
        hosts
    });
    let modes =
        prop::sample::select(vec!["nat", "nat", "dsr", "ipip", "gre", "fullnat", "stateless"]);
    let schedulers = prop::sample::select(vec!["round-robin", "weighted-round-robin", "maglev"]);
    let timeout = prop::option::of(1_u8..3);
    let service = (modes, 80_u16..82, schedulers, timeout, hosts).prop_map(
        |(mode, port, scheduler, timeout, hosts)| RandomService {
            mode,
            port,
            scheduler,
            timeout,
            hosts,
        },
    );
    let services = (prop::collection::btree_map(1_u8..6, service, 0..5), any::<bool>()).prop_map(
        |(services, backwards)| {
            let mut services: Vec<(u8, RandomService)> = services.into_iter().collect();
            if backwards {
                services.reverse();
            }
            services
        },
    );
    let gateways = prop::collection::vec(240_u8..244, 0..3);
    let neighbours = prop::collection::btree_map(10_u8..14, any::<u8>(), 0..3);
    let vlan = prop::option::of((5_u16..7, any::<bool>()));
    (services, gateways, neighbours, vlan, any::<bool>(), 0_u8..2, 0_u8..2).prop_map(
        |(services, gateways, neighbours, vlan, ports_swapped, tcp_syn, pool)| Random {
            services,
            gateways,
            neighbours,
            vlan,
            ports_swapped,
            tcp_syn,
            pool,
        },
    )
}
