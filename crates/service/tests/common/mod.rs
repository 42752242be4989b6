//! Short ways to specs, tables and flows.
#![allow(dead_code, reason = "each test file uses a part")]
use std::net::{IpAddr, SocketAddr};

use flow::{OnRemove, Refuse, Scheduler};
use service::{BackendSpec, Failover, ModeSpec, PoolSpec, ServiceSpec, ServiceTable};
use wire::{FlowKey, Transport};

pub(crate) fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

pub(crate) fn socket(text: &str) -> SocketAddr {
    text.parse().unwrap()
}

pub(crate) fn backend(address: &str, port: Option<u16>, weight: u16) -> BackendSpec {
    BackendSpec {
        address: ip(address),
        port,
        weight,
        backup: false,
        server_ids: Vec::new(),
        group: None,
    }
}

pub(crate) fn spec(vip: &str, port: Option<u16>, proto: Transport) -> ServiceSpec {
    ServiceSpec {
        name: format!("{vip} {port:?} {proto}"),
        vip: ip(vip),
        port,
        proto,
        mode: ModeSpec::Nat,
        scheduler: Scheduler::Maglev,
        maglev_size: 1009,
        on_remove: OnRemove::Keep,
        failover: Failover::default(),
        refuse: Refuse::Reset,
        timeouts: None,
        quic: Vec::new(),
        routes: None,
        backends: Vec::new(),
    }
}

/// A web service whose backends have these weights, as 10.72.0.1 and on.
pub(crate) fn web(scheduler: Scheduler, weights: &[u16]) -> ServiceSpec {
    let host = |(host, weight): (usize, &u16)| {
        backend(&format!("10.72.{}.{}", (host + 1) / 250, (host + 1) % 250), Some(8080), *weight)
    };
    ServiceSpec {
        scheduler,
        maglev_size: 65537,
        backends: weights.iter().enumerate().map(host).collect(),
        ..spec("10.71.0.100", Some(80), Transport::Tcp)
    }
}

pub(crate) fn pool(addresses: &[&str], ports: std::ops::RangeInclusive<u16>) -> PoolSpec {
    let addresses = addresses.iter().map(|address| ip(address)).collect();
    PoolSpec { name: "snat".to_owned(), addresses, ports }
}

pub(crate) fn table(specs: &[ServiceSpec]) -> ServiceTable {
    ServiceTable::compile(specs, [1, 2]).unwrap()
}

pub(crate) fn flow(proto: Transport, src: &str, dst: &str) -> FlowKey {
    FlowKey::new(proto, socket(src), socket(dst)).unwrap()
}

/// The flow of client number `client` to the web service.
pub(crate) fn client(client: u32) -> FlowKey {
    let address = std::net::Ipv4Addr::from_bits(0x0b00_0000 + client / 20_000);
    let src = SocketAddr::new(address.into(), (20_000 + client % 20_000) as u16);
    FlowKey::new(Transport::Tcp, src, socket("10.71.0.100:80")).unwrap()
}
