//! From the file's services to the service table's.
#![allow(clippy::unwrap_used, reason = "tests may")]
use config::Config;
use service::{BackendSpec, ModeSpec, PoolSpec, Scheduler, ServiceSpec};
use wire::Transport;

const BASE: &str = include_str!("errors/base.toml");

#[test]
fn every_field_arrives() {
    let text = BASE
        .replace("port = 53", "port = \"any\"")
        .replace("weight = 1", "weight = 7")
        .replace("protocol = \"tcp\"", "protocol = \"tcp\"\nmode = \"fullnat\"\npool = \"snat\"");
    let specs = Config::parse(&text, "x.toml").unwrap().service_specs();
    let backend = |address: &str, port, weight| {
        vec![BackendSpec { address: address.parse().unwrap(), port, weight }]
    };
    let pool = PoolSpec {
        name: "snat".to_owned(),
        addresses: vec!["10.72.0.200".parse().unwrap()],
        ports: 1024..=65535,
    };
    let web = ServiceSpec {
        name: "web".to_owned(),
        vip: "10.71.0.100".parse().unwrap(),
        port: Some(80),
        proto: Transport::Tcp,
        mode: ModeSpec::FullNat { pool },
        scheduler: Scheduler::Maglev,
        maglev_size: 65537,
        backends: backend("10.72.0.11", Some(8080), 7),
    };
    let dns = ServiceSpec {
        name: "dns".to_owned(),
        vip: "fd71::100".parse().unwrap(),
        port: None,
        proto: Transport::Udp,
        mode: ModeSpec::Nat,
        scheduler: Scheduler::RoundRobin,
        maglev_size: 65537,
        backends: backend("fd72::11", None, 1),
    };
    assert_eq!(specs, [web, dns]);
}

#[test]
fn every_scheduler_is_its_own() {
    for (word, expected) in [
        ("round-robin", Scheduler::RoundRobin),
        ("weighted-round-robin", Scheduler::WeightedRoundRobin),
        ("least-connections", Scheduler::LeastConnections),
        ("maglev", Scheduler::Maglev),
        ("source-hash", Scheduler::SourceHash),
    ] {
        let text = BASE.replace("\"round-robin\"", &format!("\"{word}\""));
        let specs = Config::parse(&text, "x.toml").unwrap().service_specs();
        assert_eq!(specs[1].scheduler, expected);
    }
}
