//! The service table against a list that is searched from its beginning.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests may")]
use crate::common;

use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};

use common::{backend, ip, pool, spec, table};
use flow::{BackendId, ServiceId};
use proptest::prelude::*;
use service::{ModeSpec, ServiceSpec, ServiceTable, TableError};
use wire::{FlowKey, Transport};

fn transport() -> impl Strategy<Value = Transport> {
    prop_oneof![Just(Transport::Tcp), Just(Transport::Udp)]
}

/// Few addresses and ports, so that much coincides.
fn address(network: u8) -> impl Strategy<Value = IpAddr> {
    prop_oneof![
        (1_u8..6).prop_map(move |host| ip(&format!("10.{network}.0.{host}"))),
        (1_u8..6).prop_map(move |host| ip(&format!("fd{network}::{host}"))),
    ]
}

fn port() -> impl Strategy<Value = u16> {
    prop_oneof![4 => 80_u16..84, 1 => any::<u16>()]
}

fn service() -> impl Strategy<Value = ServiceSpec> {
    let backends = prop::collection::vec((1_u8..8, prop::option::of(port()), 0_u16..3), 0..4);
    (address(71), prop::option::of(80_u16..84), transport(), backends).prop_map(
        |(vip, port, proto, hosts)| {
            let mut seen = BTreeSet::new();
            let network = if vip.is_ipv4() { "10.72.0." } else { "fd72::" };
            let backends = hosts
                .into_iter()
                .map(|(host, own, weight)| {
                    let own = own.filter(|_| port.is_some());
                    backend(&format!("{network}{host}"), own, weight)
                })
                .filter(|b| seen.insert((b.address, b.port.or(port))))
                .collect();
            ServiceSpec { backends, ..spec(&vip.to_string(), port, proto) }
        },
    )
}

fn services() -> impl Strategy<Value = Vec<ServiceSpec>> {
    prop::collection::vec(service(), 0..24).prop_map(|mut specs| {
        let mut seen = BTreeSet::new();
        specs.retain(|spec| seen.insert((spec.vip, spec.port, spec.proto)));
        specs
    })
}

proptest! {
    #[test]
    fn lookup_is_that_of_the_list(
        specs in services(),
        packets in prop::collection::vec((address(71), port(), transport()), 1..60),
    ) {
        let table = table(&specs);
        for (vip, port, proto) in packets {
            let src = SocketAddr::new(if vip.is_ipv4() { ip("9.9.9.9") } else { ip("9::9") }, 999);
            let flow = FlowKey::new(proto, src, SocketAddr::new(vip, port)).unwrap();
            let position = |wanted: Option<u16>| specs.iter().position(|spec| {
                (spec.vip, spec.port, spec.proto) == (vip, wanted, proto)
            });
            let expected = position(Some(port)).or_else(|| position(None));
            let found = table.lookup(&flow).map(|service| usize::from(service.id().0));
            prop_assert_eq!(found, expected);
            let is_vip = specs.iter().any(|spec| spec.vip == vip);
            prop_assert_eq!(table.is_vip(vip), is_vip);
            prop_assert_eq!(table.has(vip), is_vip);
        }
    }

    #[test]
    fn services_are_found_by_their_backends(
        specs in services(),
        servers in prop::collection::vec((address(72), port(), transport()), 1..60),
    ) {
        let table = table(&specs);
        for (address, port, proto) in servers {
            let mut expected: Vec<(ServiceId, BackendId)> = Vec::new();
            for any in [false, true] {
                let mut id = 0;
                for (service, spec) in (0..).zip(&specs) {
                    for backend in &spec.backends {
                        let own = backend.port.or(spec.port);
                        let fits = if any { own.is_none() } else { own == Some(port) };
                        if fits && backend.address == address && spec.proto == proto {
                            expected.push((ServiceId(service), BackendId(id)));
                        }
                        id += 1;
                    }
                }
            }
            prop_assert_eq!(table.by_backend(proto, SocketAddr::new(address, port)), &expected[..]);
        }
    }

    #[test]
    fn ids_are_places(specs in services()) {
        let table = table(&specs);
        prop_assert_eq!(table.services().len(), specs.len());
        let mut backends = table.backends().iter();
        for (service, spec) in table.services().iter().zip(&specs) {
            prop_assert_eq!(service.name(), &spec.name);
            prop_assert!(std::ptr::eq(table.service(service.id()).unwrap(), service));
            for (backend, spec) in service.backends().iter().zip(&spec.backends) {
                let place = backends.next().unwrap();
                prop_assert_eq!(place, backend);
                prop_assert_eq!(table.backend(backend.id), Some(place));
                prop_assert_eq!((backend.address, backend.weight), (spec.address, spec.weight));
                prop_assert_eq!(backend.service, service.id());
            }
        }
        prop_assert!(backends.next().is_none());
        prop_assert!(table.backend(BackendId(table.backends().len() as u16)).is_none());
    }
}

#[test]
fn pool_addresses_are_known() {
    let pool = pool(&["10.72.0.200", "fd72::200"], 1024..=65535);
    let full = ServiceSpec {
        mode: ModeSpec::FullNat { pool },
        ..spec("10.71.0.100", Some(80), Transport::Tcp)
    };
    let table = table(&[full]);
    assert!(table.is_pool_address(ip("10.72.0.200")));
    assert!(!table.is_pool_address(ip("fd72::200")), "the service is IPv4");
    assert!(!table.is_vip(ip("10.72.0.200")) && table.is_vip(ip("10.71.0.100")));
}

fn refused(specs: &[ServiceSpec]) -> String {
    let error: TableError = ServiceTable::compile(specs, [1, 2]).unwrap_err();
    error.to_string()
}

#[test]
fn what_cannot_be_compiled_is_refused() {
    let tcp = |port, backends| ServiceSpec { backends, ..spec("10.71.0.1", port, Transport::Tcp) };
    let name = "10.71.0.1 Some(80) tcp";
    let one = tcp(Some(80), vec![backend("10.72.0.1", None, 1)]);
    assert_eq!(
        refused(&[one.clone(), one.clone()]),
        format!(
            "services '{name}' and '{name}' have the same vip, port and protocol; change one of them"
        )
    );
    let twice = vec![backend("10.72.0.1", None, 1), backend("10.72.0.1", Some(80), 1)];
    assert!(refused(&[tcp(Some(80), twice)]).contains("has the backend 10.72.0.1 twice"));
    assert_eq!(
        refused(&[tcp(Some(80), vec![backend("fd72::1", None, 1)])]),
        format!("service '{name}': backend fd72::1 is not of the family of the vip 10.71.0.1")
    );
    assert!(
        refused(&[tcp(None, vec![backend("10.72.0.1", Some(80), 1)])]).contains("takes any port")
    );
    let empty = ModeSpec::FullNat { pool: pool(&["fd72::1"], 1..=9) };
    assert_eq!(
        refused(&[ServiceSpec { mode: empty, ..one.clone() }]),
        format!("service '{name}': pool 'snat' has no address of the family of the vip 10.71.0.1")
    );
    assert_eq!(
        refused(&[ServiceSpec { maglev_size: 1000, ..one }]),
        format!("service '{name}': maglev table size 1000 is not a prime; the next one is 1009")
    );
}
