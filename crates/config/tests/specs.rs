//! From the file's services to the service table's.
#![allow(clippy::unwrap_used, reason = "tests may")]
use config::Config;
use flow::{OnRemove, Refuse, Scheduler};
use service::{
    BackendSpec, Failover, Goal, ModeSpec, PoolSpec, Reads, RouteSpec, ServiceSpec, TunnelSpec,
};
use wire::{Transport, Tunnel};

const BASE: &str = include_str!("errors/base.toml");

#[test]
fn every_field_arrives() {
    let text = BASE
        .replace("port = 53", "port = \"any\"")
        .replace("weight = 1", "weight = 7")
        .replace("protocol = \"tcp\"", "protocol = \"tcp\"\nmode = \"fullnat\"\npool = \"snat\"");
    let specs = Config::parse(&text, "x.toml").unwrap().service_specs();
    let backend = |address: &str, port, weight| {
        vec![BackendSpec {
            address: address.parse().unwrap(),
            port,
            weight,
            backup: false,
            server_ids: Vec::new(),
            group: None,
        }]
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
        on_remove: OnRemove::Keep,
        failover: Failover::default(),
        refuse: Refuse::Reset,
        timeouts: None,
        quic: Vec::new(),
        routes: None,
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
        on_remove: OnRemove::Keep,
        failover: Failover::default(),
        refuse: Refuse::Reset,
        timeouts: None,
        quic: Vec::new(),
        routes: None,
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

#[test]
fn every_mode_is_its_own() {
    let tunnel = |tunnel| ModeSpec::Tunnel(TunnelSpec { tunnel, source: None, ttl: 64 });
    let given = TunnelSpec {
        tunnel: Tunnel::Gue { port: 9 },
        source: Some("fd72::1".parse().unwrap()),
        ttl: 7,
    };
    for (lines, expected) in [
        ("mode = \"nat\"", ModeSpec::Nat),
        ("mode = \"dsr\"", ModeSpec::Dsr),
        ("mode = \"ipip\"", tunnel(Tunnel::Ipip)),
        ("mode = \"gre\"", tunnel(Tunnel::Gre)),
        ("mode = \"gue\"", tunnel(Tunnel::Gue { port: 6080 })),
        ("mode = \"geneve\"", tunnel(Tunnel::Geneve { port: 6081 })),
        ("mode = \"geneve\"\ntunnel_port = 7", tunnel(Tunnel::Geneve { port: 7 })),
        (
            "mode = \"gue\"\ntunnel_port = 9\ntunnel_source = \"fd72::1\"\ntunnel_ttl = 7",
            ModeSpec::Tunnel(given),
        ),
    ] {
        let text = BASE.replace("scheduler = \"round-robin\"", lines);
        let specs = Config::parse(&text, "x.toml").unwrap().service_specs();
        assert_eq!(specs[1].mode, expected);
    }
}

#[test]
fn a_tunnel_leads_to_either_family_and_must_be_wide_enough_for_ipv6() {
    let across = BASE.replace("scheduler = \"round-robin\"", "mode = \"gre\"");
    let across = across.replace("address = \"fd72::11\"", "address = \"10.72.0.12\"");
    assert!(Config::parse(&across, "x.toml").is_ok());
    for (mtu, wide) in [(1303, false), (1304, true)] {
        let text = across.replace("mtu = 1500", &format!("mtu = {mtu}"));
        let errors = Config::parse(&text, "x.toml").err().map(|errors| errors.to_string());
        assert_eq!(errors.is_none(), wide, "{errors:?}");
        assert!(errors.is_none_or(|text| text.contains("an mtu of at least 1304")));
    }
}

/// Each idle time is that of the service, or else that of `[conntrack]`.
#[test]
fn a_services_timeouts_count_before_the_general_ones() {
    let with = |text: &str| Config::parse(&BASE.replace("weight = 1", text), "x.toml").unwrap();
    let plain = with("weight = 1");
    assert_eq!(plain.service_specs()[0].timeouts, None);
    let general = plain.conntrack.timeouts(&config::Timeouts::default());
    assert_eq!((general.established_ms, general.udp_ms), (3_600_000, 60_000), "as in the base");
    let own = BASE.replace(
        "protocol = \"tcp\"",
        "protocol = \"tcp\"\ntimeouts = { tcp_established = \"10s\", udp = \"5s\" }",
    );
    let own = Config::parse(&own, "x.toml").unwrap().service_specs()[0].timeouts.unwrap();
    let (closing, syn) = (general.closing_ms, general.syn_ms);
    assert_eq!((own.established_ms, own.closing_ms, own.syn_ms), (10_000, closing, syn));
    // What follows from others is at most these.
    assert_eq!((own.doubtful_ms, own.udp_ms, own.udp_stream_ms), (closing, 5000, 5000));
}

#[test]
fn routes_of_tls_become_rules_of_names_and_protocols() {
    let route = "protocol = \"tls\"\n\
                 route = [{ server_name = \"*.A.example\", alpn = \"h2\", group = \"a\" }]";
    let text = BASE.replace("protocol = \"tcp\"", route).replace("weight = 1", "group = \"a\"");
    let specs = Config::parse(&text, "x.toml").unwrap().service_specs();
    let routes = specs[0].routes.as_ref().unwrap();
    assert_eq!(routes.reads, Reads::Hellos);
    assert_eq!(
        routes.rules,
        [RouteSpec {
            host: Some("*.a.example".to_owned()),
            alpn: Some("h2".to_owned()),
            goal: Goal::Group(Some("a".to_owned())),
            ..RouteSpec::default()
        }]
    );
}
