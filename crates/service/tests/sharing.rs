//! Several services with backends at one address and port: without a connection in
//! the table each answer belongs to one service, the one that the client spoke to.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests may")]
use crate::common;

use std::collections::HashMap;
use std::net::SocketAddr;

use common::{backend, spec, table};
use flow::{Scheduler, ServiceId};
use proptest::prelude::*;
use service::{ServiceSpec, ServiceTable};
use wire::{FlowKey, Transport};

fn client(n: u32) -> SocketAddr {
    SocketAddr::new([192, 0, 2, (n % 200) as u8].into(), 1024 + (n / 200) as u16)
}

/// Where the client's packets to `service` go without state, if they are sent.
fn served(
    table: &ServiceTable,
    service: ServiceId,
    from: SocketAddr,
    port: u16,
) -> Option<FlowKey> {
    let service = table.service(service).unwrap();
    let flow = FlowKey::new(Transport::Tcp, from, SocketAddr::new(service.vip(), port)).unwrap();
    let own = table.hashed(service, &flow)?;
    let server = service.server(own, port).unwrap();
    table.claims(service, own, &flow).then(|| FlowKey::new(Transport::Tcp, server, from).unwrap())
}

/// Services of VIPs 10.71.0.100 and up: a port (or any), and backends of which some
/// are those of other services.
fn services() -> impl Strategy<Value = Vec<ServiceSpec>> {
    let hosts = proptest::collection::btree_map(1_u8..8, 0_u16..3, 1..5);
    let one = (proptest::option::weighted(0.8, Just(80_u16)), hosts);
    proptest::collection::vec(one, 1..6).prop_map(|all| {
        let own = |(n, (port, hosts)): (usize, (Option<u16>, _))| {
            let hosts: std::collections::BTreeMap<u8, u16> = hosts;
            let backends = hosts
                .into_iter()
                .map(|(host, weight)| {
                    backend(&format!("10.72.0.{host}"), port.map(|_| 8080), weight)
                })
                .collect();
            ServiceSpec { backends, ..spec(&format!("10.71.0.{}", 100 + n), port, Transport::Tcp) }
        };
        all.into_iter().enumerate().map(own).collect()
    })
}

proptest! {
    /// No two services send packets of one client to one server, so that the answer
    /// belongs to one, and that is the one to which it is given.
    #[test]
    fn an_answer_belongs_to_the_service_that_was_asked(specs in services(), clients in 1_u32..60) {
        let table = table(&specs);
        let mut asked: HashMap<FlowKey, ServiceId> = HashMap::new();
        for n in 0..clients {
            for service in table.services() {
                let port = service.port().unwrap_or(8080);
                let Some(answer) = served(&table, service.id(), client(n), port) else { continue };
                let other = asked.insert(answer, service.id());
                prop_assert!(other.is_none(), "{answer:?}: {other:?} and {:?}", service.id());
            }
        }
        for (answer, service) in asked {
            let (found, own) = table.claimant(&answer).unwrap();
            prop_assert_eq!(found.id(), service);
            prop_assert_eq!(table.backend(own).unwrap().address, answer.src().ip());
        }
    }

    /// The order of the services in the file changes nothing, so that several load
    /// balancers agree.
    #[test]
    fn the_order_of_services_does_not_matter(specs in services(), n in 0_u32..10_000) {
        let there = table(&specs);
        let reversed: Vec<_> = specs.iter().rev().cloned().collect();
        let here = table(&reversed);
        for service in there.services() {
            let twin = here.services().iter().find(|own| own.vip() == service.vip()).unwrap();
            let port = service.port().unwrap_or(8080);
            prop_assert_eq!(
                served(&there, service.id(), client(n), port),
                served(&here, twin.id(), client(n), port)
            );
        }
    }
}

fn shared(hosts: [&[u8]; 2], ports: [Option<u16>; 2]) -> ServiceTable {
    let own = |(n, (hosts, port)): (usize, (&[u8], Option<u16>))| {
        let at = |host| backend(&format!("10.72.0.{host}"), port.map(|_| 8080), 1);
        let backends = hosts.iter().map(at).collect();
        ServiceSpec { backends, ..spec(&format!("10.71.0.{}", 100 + n), port, Transport::Tcp) }
    };
    table(&hosts.into_iter().zip(ports).enumerate().map(own).collect::<Vec<_>>())
}

fn share_served(table: &ServiceTable, service: u16, port: u16) -> usize {
    (0..1000).filter(|n| served(table, ServiceId(service), client(*n), port).is_some()).count()
}

#[test]
fn a_service_of_a_certain_port_is_served_beside_one_of_any_port() {
    let table = shared([&[11, 12, 13, 14], &[11]], [Some(80), None]);
    assert_eq!(share_served(&table, 0, 80), 1000);
    for n in 0..1000 {
        let web = &table.services()[0];
        let flow = FlowKey::new(Transport::Tcp, client(n), "10.71.0.100:80".parse().unwrap());
        assert_eq!(table.hashed(web, &flow.unwrap()), web.hashed(&flow.unwrap()));
    }
    // Other ports of the other service have answers of their own.
    assert_eq!(share_served(&table, 1, 22), 1000);
    let conflicting = share_served(&table, 1, 8080);
    assert!((650..850).contains(&conflicting), "{conflicting}");
}

#[test]
fn two_services_with_the_same_backends_are_both_served() {
    let table = shared([&[11, 12, 13, 14]; 2], [Some(80); 2]);
    assert_eq!(share_served(&table, 0, 80), 1000);
    let second = share_served(&table, 1, 80);
    assert!(second > 900, "{second}");
}

/// By the client's address alone both services would choose the same backend.
#[test]
fn services_with_source_hash_take_different_backends() {
    let hosts: &[u8] = &[11, 12, 13, 14];
    let own = |n: u8| ServiceSpec {
        scheduler: Scheduler::SourceHash,
        backends: hosts.iter().map(|h| backend(&format!("10.72.0.{h}"), Some(8080), 1)).collect(),
        ..spec(&format!("10.71.0.{n}"), Some(80), Transport::Tcp)
    };
    let table = table(&[own(100), own(101)]);
    assert_eq!(share_served(&table, 0, 80), 1000);
    let second = share_served(&table, 1, 80);
    assert!(second > 750, "{second}");
}

#[test]
fn the_first_of_two_services_with_one_backend_is_served() {
    let table = shared([&[11]; 2], [Some(80); 2]);
    assert_eq!((share_served(&table, 0, 80), share_served(&table, 1, 80)), (1000, 0));
}

/// A packet to the port of one service never reaches the other of the same VIP, which
/// takes any port, so an answer is never that one's.
#[test]
fn answers_belong_to_the_service_that_a_packet_reaches() {
    let web = ServiceSpec {
        backends: vec![backend("10.72.0.11", Some(8080), 1)],
        ..spec("10.71.0.100", Some(8080), Transport::Tcp)
    };
    let any = ServiceSpec {
        backends: vec![backend("10.72.0.11", None, 1), backend("10.72.0.12", None, 1)],
        ..spec("10.71.0.100", None, Transport::Tcp)
    };
    let other = ServiceSpec {
        backends: vec![backend("10.72.0.12", None, 1), backend("10.72.0.13", None, 1)],
        ..spec("10.71.0.101", Some(8080), Transport::Tcp)
    };
    let table = table(&[any, web, other]);
    assert_eq!((share_served(&table, 1, 8080), share_served(&table, 2, 8080)), (1000, 1000));
    for n in 0..1000 {
        let answer = FlowKey::new(Transport::Tcp, "10.72.0.12:8080".parse().unwrap(), client(n));
        assert_eq!(table.claimant(&answer.unwrap()).unwrap().0.id(), ServiceId(2));
    }
}
