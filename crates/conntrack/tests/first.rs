//! Connections that are opened the short way are those that `insert` makes.
#![cfg(not(loom))]
#![allow(clippy::unwrap_used, clippy::panic)]
mod common;

use std::net::{Ipv4Addr, SocketAddrV4};

use common::{hops, table};
use conntrack::{Hit, InsertError, PlainKey};
use flow::{BackendId, Direction, ServiceId};
use proptest::prelude::*;
use service::{Binding, Forwarding};
use wire::{FlowKey, FlowV4, TcpFlags, Transport};

fn flow(client: (u32, u16), vip: (u32, u16), proto: Transport) -> FlowV4 {
    FlowV4 {
        src: Ipv4Addr::from_bits(client.0),
        sport: client.1,
        dst: Ipv4Addr::from_bits(vip.0),
        dport: vip.1,
        proto,
    }
}

/// The flow as a packet has it in memory.
fn words(flow: &FlowV4) -> PlainKey {
    let bytes = [flow.src.octets(), flow.dst.octets()].concat();
    let ports = [flow.sport.to_be_bytes(), flow.dport.to_be_bytes()].concat();
    PlainKey {
        addresses: u64::from_ne_bytes(bytes.try_into().unwrap()),
        ports: u32::from_ne_bytes(ports.try_into().unwrap()),
        proto: flow.proto.number(),
    }
}

proptest! {
    #[test]
    fn opening_is_inserting_and_counting_the_first_packet(
        client: (u32, u16), vip: (u32, u16), server: (u32, u16), tcp: bool, n: u32,
    ) {
        prop_assume!(client != server && client != vip);
        let proto = if tcp { Transport::Tcp } else { Transport::Udp };
        let flow = flow(client, vip, proto);
        let server = SocketAddrV4::new(Ipv4Addr::from_bits(server.0), server.1);
        let owner = (ServiceId(n as u16), BackendId((n >> 16) as u16));
        let binding = Binding {
            proto,
            service: owner.0,
            backend: owner.1,
            forwarding: Forwarding::Rewrite,
            client: SocketAddrV4::new(flow.src, flow.sport).into(),
            vip: SocketAddrV4::new(flow.dst, flow.dport).into(),
            server: server.into(),
            local: SocketAddrV4::new(flow.src, flow.sport).into(),
        };
        let [short, long] = [table(16, 0), table(16, 0)];
        let opening = short.prepare(&flow, server, owner, hops(n));
        short.prepare_further(&opening);
        prop_assert!(!short.conflicts(&opening));
        let conn = short.open(&opening, 70);
        let flags = tcp.then_some(TcpFlags(TcpFlags::SYN));
        let expected = long.insert(&binding, hops(n), 70);
        prop_assert_eq!(conn, expected);
        let conn = conn.unwrap();
        let there = Hit { conn, direction: Direction::Forward };
        let back = Hit { conn, direction: Direction::Reply };
        long.touch(there, flags, 70);
        prop_assert_eq!(opening.backend(), binding.backend);
        for table in [&short, &long] {
            prop_assert_eq!(table.binding(conn), Some(binding));
            prop_assert_eq!(table.lookup(&FlowKey::V4(flow)), Some(there));
            prop_assert_eq!(table.lookup(&binding.key(Direction::Reply).unwrap()), Some(back));
        }
        prop_assert_eq!(short.state(conn), long.state(conn));
        prop_assert_eq!(short.idle_ms(conn, 1000), long.idle_ms(conn, 1000));
        for hit in [there, back] {
            prop_assert_eq!(short.action(hit), long.action(hit));
            let delivery = binding.delivery(hit.direction);
            prop_assert_eq!(short.action(hit).map(|action| action.delivery), delivery);
        }
        // What is done to the first packet is what is done to all others.
        short.touch(back, tcp.then_some(TcpFlags(TcpFlags::SYN | TcpFlags::ACK)), 70);
        short.touch(there, tcp.then_some(TcpFlags(TcpFlags::ACK)), 70);
        let key = words(&flow);
        prop_assert_eq!(short.plain(there, &key, 70), Some(opening.action()));
        // A stale mark may name a connection that differs in one bit alone, or
        // one that has ended.
        let others = (0..64).map(|bit| PlainKey { addresses: key.addresses ^ 1 << bit, ..key });
        let others = others.chain((0..32).map(|bit| PlainKey { ports: key.ports ^ 1 << bit, ..key }));
        for other in others.chain([PlainKey { proto: 23 - key.proto, ..key }]) {
            prop_assert_eq!(short.plain(there, &other, 70), None, "{:x?}", other);
        }
        long.remove(conn).unwrap();
        prop_assert_eq!(long.plain(there, &key, 70), None);
        prop_assert!(short.conflicts(&opening));
        let exists = Err(InsertError::Exists(there));
        prop_assert_eq!(short.open(&opening, 70), exists);
    }
}

#[test]
fn a_full_table_says_so_and_counts_who_asks() {
    let table = table(3, 3);
    let open = |port| {
        let flow = flow((7, port), (9, 80), Transport::Udp);
        let server = SocketAddrV4::new(Ipv4Addr::from_bits(11), 8080);
        table.open(&table.prepare(&flow, server, (ServiceId(0), BackendId(0)), hops(0)), 0)
    };
    for port in 0..3 {
        assert!(!table.refuses_v4());
        open(port).unwrap();
    }
    assert_eq!(table.stats().v4.full, 0);
    assert!(table.refuses_v4());
    assert_eq!(table.stats().v4.full, 1);
    assert_eq!(open(3), Err(InsertError::Full));
    let gone = table.lookup(&FlowKey::V4(flow((7, 1), (9, 80), Transport::Udp))).unwrap();
    table.remove(gone.conn).unwrap();
    assert!(table.refuses_v4(), "not yet reclaimed");
    table.reclaim();
    assert!(!table.refuses_v4());
    open(3).unwrap();
}

#[test]
fn client_and_server_are_two() {
    let table = table(3, 3);
    let flow = flow((7, 1), (7, 1), Transport::Tcp);
    let opening = |port| {
        let server = SocketAddrV4::new(flow.src, port);
        table.prepare(&flow, server, (ServiceId(0), BackendId(0)), hops(0))
    };
    assert_eq!(table.open(&opening(1), 0), Err(InsertError::Loop));
    table.open(&opening(2), 0).unwrap();
}
