//! Counts of services and source networks, against the plainest model.
#![cfg(not(loom))]
#![allow(clippy::unwrap_used, clippy::panic)]
use crate::common;

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use common::{hops, segment, table};
use conntrack::{ConnId, ConnTable, EmbryonicLimits, Hit, InsertError, Limit};
use flow::{BackendId, Direction, ServiceId};
use proptest::prelude::*;
use service::{Binding, Forwarding};
use wire::{TcpFlags, Transport};

/// Client `host` of network `network` (a /24 or /64) at `service`.
fn binding(v6: bool, service: u16, network: u8, host: u16) -> Binding {
    let [low, high] = host.to_be_bytes();
    let addr = |net: u16, own: u8| -> IpAddr {
        if v6 {
            Ipv6Addr::new(0x2001, 0xdb8, net, network.into(), low.into(), 0, 0, own.into()).into()
        } else {
            Ipv4Addr::new(net as u8, 0, network, own).into()
        }
    };
    let client = SocketAddr::new(addr(10, high), 1000 + host);
    let server = SocketAddr::new(addr(172, 1), 80);
    Binding {
        proto: Transport::Tcp,
        service: ServiceId(service),
        backend: BackendId(0),
        forwarding: Forwarding::Rewrite,
        client,
        vip: SocketAddr::new(addr(192, service as u8), 80),
        server: SocketAddr::new(server.ip(), 8000 + service),
        local: client,
    }
}

fn establish(table: &ConnTable, conn: ConnId) {
    let touch = |direction, flags| table.touch(Hit { conn, direction }, Some(segment(flags)), 0);
    touch(Direction::Forward, TcpFlags::SYN);
    touch(Direction::Reply, TcpFlags::SYN | TcpFlags::ACK);
    touch(Direction::Forward, TcpFlags::ACK);
}

fn walk(table: &ConnTable) {
    table.sweep(0, 1 << 20, &mut |_, _| {});
}

fn limited(service_percent: u32, source_percent: u32) -> ConnTable {
    let table = table(1000, 1000);
    table.set_embryonic_limits(EmbryonicLimits { service_percent, source_percent });
    walk(&table);
    table
}

#[derive(Clone, Debug)]
enum Step {
    Insert { v6: bool, service: u16, network: u8, host: u16 },
    Establish(prop::sample::Index),
    Remove(prop::sample::Index),
    Walk,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => (any::<bool>(), 0..4_u16, 0..3_u8, 0..2000_u16)
            .prop_map(|(v6, service, network, host)| Step::Insert { v6, service, network, host }),
        2 => any::<prop::sample::Index>().prop_map(Step::Establish),
        1 => any::<prop::sample::Index>().prop_map(Step::Remove),
        1 => Just(Step::Walk),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if cfg!(miri) { 2 } else { 64 }))]

    /// Counts are never too low, and exact when the walk has been round since the
    /// last insertion and once more.
    #[test]
    fn counts_follow_the_connections(steps in prop::collection::vec(step(), 1..300)) {
        let table = limited(0, 0);
        // By connection: its service, and whether it is established.
        let mut open: BTreeMap<ConnId, (u16, bool)> = BTreeMap::new();
        let expected = |open: &BTreeMap<ConnId, (u16, bool)>, service| {
            let own = open.values().filter(|(of, _)| *of == service);
            [own.clone().count() as u32, own.filter(|(_, done)| !done).count() as u32]
        };
        for step in steps {
            match step {
                Step::Insert { v6, service, network, host } => {
                    let binding = binding(v6, service, network, host);
                    if let Ok(conn) = table.insert(&binding, hops(0), 0) {
                        open.insert(conn, (service, false));
                    }
                }
                Step::Establish(at) if !open.is_empty() => {
                    let conn = *at.get(&open.keys().copied().collect::<Vec<_>>());
                    establish(&table, conn);
                    open.get_mut(&conn).unwrap().1 = true;
                }
                Step::Remove(at) if !open.is_empty() => {
                    let conn = *at.get(&open.keys().copied().collect::<Vec<_>>());
                    table.remove(conn);
                    open.remove(&conn);
                }
                Step::Walk => walk(&table),
                _ => {}
            }
            for service in 0..4 {
                let [all, embryonic] = table.connections_of(ServiceId(service));
                let [all_open, embryonic_open] = expected(&open, service);
                prop_assert!(all >= all_open && embryonic >= embryonic_open);
            }
        }
        (0..3).for_each(|_| walk(&table));
        for service in 0..4 {
            let counted = table.connections_of(ServiceId(service));
            prop_assert_eq!(counted, expected(&open, service));
        }
    }
}

/// How many of `count` connections are taken.
fn fill(table: &ConnTable, v6: bool, service: u16, network: impl Fn(u16) -> u8, count: u16) -> u16 {
    let taken = (0..count).filter(|&n| {
        let done = table.insert(&binding(v6, service, network(n), n), hops(0), 0);
        walk(table);
        done.is_ok()
    });
    taken.count() as u16
}

#[test]
fn a_service_takes_as_many_as_remain_free() {
    for v6 in [false, true] {
        let table = limited(100, 0);
        let taken = fill(&table, v6, 1, |n| n as u8, 900);
        assert!((499..=501).contains(&taken), "{taken}");
        let refused = table.insert(&binding(v6, 1, 1, 1500), hops(0), 0);
        assert_eq!(refused, Err(InsertError::Limited(Limit::Service)));
        // The other family has room of its own, and so has another service.
        let other = table.insert(&binding(!v6, 2, 1, 1500), hops(0), 0);
        assert!(other.is_ok());
        assert!(fill(&table, v6, 3, |n| n as u8, 900) >= 249);
        // A server's answer is not refused.
        assert!(table.insert_answered(&binding(v6, 1, 1, 1501), hops(0), 0).is_ok());
    }
}

#[test]
fn a_network_takes_its_part_of_what_remains_free() {
    for v6 in [false, true] {
        let table = limited(0, 25);
        let taken = fill(&table, v6, 1, |_| 7, 900);
        assert!((199..=201).contains(&taken), "{taken}");
        let refused = table.insert(&binding(v6, 2, 7, 1500), hops(0), 0);
        assert_eq!(refused, Err(InsertError::Limited(Limit::Source)));
        assert!(table.insert(&binding(v6, 1, 8, 1500), hops(0), 0).is_ok());
    }
}

#[test]
fn a_share_is_of_all_connections() {
    let table = limited(0, 0);
    table.set_share(ServiceId(1), 300);
    for n in 0..300 {
        let conn = table.insert(&binding(false, 1, n as u8, n), hops(0), 0).unwrap();
        establish(&table, conn);
    }
    (0..2).for_each(|_| walk(&table));
    let refused = table.insert(&binding(false, 1, 1, 1500), hops(0), 0);
    assert_eq!(refused, Err(InsertError::Limited(Limit::Share)));
    assert!(table.insert(&binding(false, 2, 1, 1500), hops(0), 0).is_ok());
    table.set_share(ServiceId(1), 301);
    assert!(table.insert(&binding(false, 1, 1, 1500), hops(0), 0).is_ok());
}

#[test]
fn embryonic_connections_end_sooner_as_the_table_fills() {
    let at_fill = |open: u16| {
        let table = limited(0, 0);
        let first = table.insert(&binding(false, 1, 0, 0), hops(0), 0).unwrap();
        establish(&table, first);
        fill(&table, false, 1, |n| (n % 200) as u8 + 1, open - 2);
        let own = table.insert(&binding(false, 2, 0, 1999), hops(0), 0).unwrap();
        [table.timeout_ms(first).unwrap(), table.timeout_ms(own).unwrap()]
    };
    for (open, embryonic_ms) in
        [(500, 30_000), (501, 15_000), (751, 7500), (876, 3750), (950, 1875)]
    {
        assert_eq!(at_fill(open), [900_000, embryonic_ms], "{open} of 1000");
    }
}
