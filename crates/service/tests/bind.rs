//! What is decided for a connection.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests may")]
use crate::common;

use common::{backend, flow, pool, socket, spec, table};
use flow::{BackendId, Direction, ServiceId};
use service::{Binding, Forwarding, ModeSpec, ServiceSpec, ServiceTable};
use wire::Transport::{self, Tcp, Udp};

/// A NAT service, one of any port, one of full NAT, one of IPv6.
fn services() -> ServiceTable {
    let with = |spec: ServiceSpec, backends| ServiceSpec { backends, ..spec };
    let full = ModeSpec::FullNat { pool: pool(&["10.72.0.200"], 1024..=65535) };
    table(&[
        with(
            spec("10.71.0.100", Some(80), Tcp),
            vec![backend("10.72.0.11", Some(8080), 1), backend("10.72.0.12", None, 1)],
        ),
        with(spec("10.71.0.100", None, Tcp), vec![backend("10.72.0.13", None, 1)]),
        ServiceSpec {
            mode: full,
            ..with(spec("10.71.0.101", Some(53), Udp), vec![backend("10.72.0.14", None, 1)])
        },
        with(spec("fd71::100", Some(80), Tcp), vec![backend("fd72::11", None, 1)]),
    ])
}

fn bind(
    service: u16,
    backend: u16,
    (proto, src, dst): (Transport, &str, &str),
    local: Option<&str>,
) -> Option<Binding> {
    let table = services();
    let service = table.service(ServiceId(service)).unwrap();
    service.bind(BackendId(backend), &flow(proto, src, dst), local.map(socket))
}

const CLIENT: &str = "10.71.0.7:4000";
const WEB: (Transport, &str, &str) = (Tcp, CLIENT, "10.71.0.100:80");
const DNS: (Transport, &str, &str) = (Udp, CLIENT, "10.71.0.101:53");

#[test]
fn nat_keeps_the_client() {
    let binding = bind(0, 0, WEB, None).unwrap();
    let expected = Binding {
        proto: Tcp,
        service: ServiceId(0),
        backend: BackendId(0),
        forwarding: Forwarding::Rewrite,
        client: socket(CLIENT),
        vip: socket("10.71.0.100:80"),
        server: socket("10.72.0.11:8080"),
        local: socket(CLIENT),
    };
    assert_eq!(binding, expected);
    assert_eq!(binding.key(Direction::Forward), Some(flow(WEB.0, WEB.1, WEB.2)));
    assert_eq!(binding.key(Direction::Reply), Some(flow(Tcp, "10.72.0.11:8080", CLIENT)));
    assert_eq!(bind(0, 1, WEB, None).unwrap().server, socket("10.72.0.12:80"));
}

#[test]
fn any_port_is_kept() {
    let binding = bind(1, 2, (Tcp, CLIENT, "10.71.0.100:2222"), None).unwrap();
    assert_eq!(binding.server, socket("10.72.0.13:2222"));
}

#[test]
fn full_nat_takes_the_local_endpoint() {
    let binding = bind(2, 3, DNS, Some("10.72.0.200:5000")).unwrap();
    assert_eq!(binding.local, socket("10.72.0.200:5000"));
    let reply = flow(Udp, "10.72.0.14:53", "10.72.0.200:5000");
    assert_eq!(binding.key(Direction::Reply), Some(reply));
}

#[test]
fn ipv6_is_bound_too() {
    let binding = bind(3, 4, (Tcp, "[fd71::7]:4000", "[fd71::100]:80"), None).unwrap();
    assert_eq!(binding.server, socket("[fd72::11]:80"));
}

#[test]
fn what_does_not_fit_is_not_bound() {
    for (service, backend, packet, local, why) in [
        (0, 2, WEB, None, "backend of another service"),
        (1, 1, WEB, None, "backend of an earlier service"),
        (0, 99, WEB, None, "no such backend"),
        (0, 0, (Tcp, CLIENT, "10.71.0.100:81"), None, "other port"),
        (0, 0, (Tcp, CLIENT, "10.71.0.101:80"), None, "other vip"),
        (0, 0, (Udp, CLIENT, "10.71.0.100:80"), None, "other protocol"),
        (0, 0, WEB, Some(CLIENT), "local in mode nat"),
        (2, 3, DNS, None, "no local in mode fullnat"),
        (2, 3, DNS, Some("[fd72::200]:5000"), "local of another family"),
    ] {
        assert_eq!(bind(service, backend, packet, local), None, "{why}");
    }
}
