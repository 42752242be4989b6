//! From the configuration to the shared state: what services say of their own counts.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests may")]
use setup::{PortFacts, Seed, shared};
use testkit::ConfigText;
use wire::{FlowKey, Mac, Transport};

const FACTS: PortFacts = PortFacts { mac: Mac([2, 0, 0, 0, 0, 1]), queues: 1, ring: 64 };

fn config(service: &str, more: &str) -> config::Config {
    let mut text =
        ConfigText::one_port().service("web", "10.71.0.100", Some(80), Transport::Tcp, service);
    for host in 11..19 {
        text = text.backend(format!("10.72.0.{host}"), None, "");
    }
    text.table(more, "").parse()
}

/// The fleet's key alone decides: the seed, which is of one process, does not.
#[test]
fn the_fleets_key_decides_where_hashing_leads() {
    let choices = |fleet: &str, seed| {
        let shared = shared(&config("", fleet), &[FACTS], false, Seed([seed; 32])).unwrap();
        let services = &shared.snapshot().services;
        let choose = |port: u16| {
            let client = ([192, 0, 2, 1], port).into();
            let flow = FlowKey::new(Transport::Tcp, client, "10.71.0.100:80".parse().unwrap());
            services.hashed(&services.services()[0], &flow.unwrap())
        };
        (1024..1200).map(choose).collect::<Vec<_>>()
    };
    let key = format!("[fleet]\nkey = \"{}\"", "5a".repeat(16));
    assert_eq!(choices(&key, 1), choices(&key, 2));
    assert_eq!(choices("", 1), choices("", 2));
    assert_ne!(choices(&key, 1), choices("", 1));
}
