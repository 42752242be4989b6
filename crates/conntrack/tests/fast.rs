//! Prepared connections are those that `insert` makes, and the fast path serves
//! what `action` says, in both families.
#![cfg(not(loom))]
#![allow(clippy::unwrap_used, clippy::panic)]
use crate::common;

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use common::{hops, segment, table};
use conntrack::{FastKey, Hit, InsertError, Key, PreparedInsert};
use flow::{BackendId, Direction, ServiceId};
use proptest::prelude::*;
use service::{Binding, Delivery, Forwarding};
use wire::{FlowKey, Rewrite, TcpFlags, Transport};

/// The address whose bits these are; of IPv4 the lower ones.
fn ip<const K: usize>(bits: u128) -> IpAddr {
    match K {
        1 => Ipv4Addr::from_bits(bits as u32).into(),
        _ => Ipv6Addr::from_bits(bits).into(),
    }
}

fn at<const K: usize>((bits, port): (u128, u16)) -> SocketAddr {
    SocketAddr::new(ip::<K>(bits), port)
}

/// The 5-tuple as a packet has it in memory.
fn words<const K: usize>(src: SocketAddr, dst: SocketAddr, proto: Transport) -> Key<K> {
    let bytes = |ip| match ip {
        IpAddr::V4(ip) => ip.octets().to_vec(),
        IpAddr::V6(ip) => ip.octets().to_vec(),
    };
    let addresses = [bytes(src.ip()), bytes(dst.ip())].concat();
    let word = |at: usize| u64::from_ne_bytes(addresses[8 * at..8 * at + 8].try_into().unwrap());
    let ports = [src.port().to_be_bytes(), dst.port().to_be_bytes()].concat();
    Key {
        addresses: std::array::from_fn(word),
        ports: u32::from_ne_bytes(ports.try_into().unwrap()),
        proto,
    }
}

/// The keys that differ from `key` in one bit or in the protocol.
fn others<const K: usize>(key: Key<K>) -> Vec<Key<K>> {
    let proto = if key.proto == Transport::Tcp { Transport::Udp } else { Transport::Tcp };
    let mut others = vec![Key { proto, ..key }];
    others.extend((0..32).map(|bit| Key { ports: key.ports ^ 1 << bit, ..key }));
    for bit in 0..64 * K {
        let mut other = key;
        other.addresses[bit / 64] ^= 1 << (bit % 64);
        others.push(other);
    }
    others
}

/// Checks a connection of one family.
fn check<const K: usize>(
    ends: [(u128, u16); 3],
    proto: Transport,
    forwarding: Forwarding,
    n: u32,
) -> Result<(), TestCaseError>
where
    Key<K>: FastKey<K>,
{
    let [client, vip, server] = ends.map(at::<K>);
    if client == server || client == vip {
        return Ok(());
    }
    let owner = (ServiceId(n as u16), BackendId((n >> 16) as u16), forwarding);
    let one_way = forwarding.is_one_way();
    let backend = server;
    let server = if one_way { vip } else { backend };
    let binding = Binding {
        proto,
        service: owner.0,
        backend: owner.1,
        forwarding,
        client,
        vip,
        server,
        local: client,
    };
    let keys = [words::<K>(client, vip, proto), words(server, client, proto)];
    prop_assert_eq!(keys[0].answers(backend, forwarding), Some(keys[1]));
    let stranger = SocketAddr::new(if K == 1 { ip::<4>(1) } else { ip::<1>(1) }, 1);
    prop_assert_eq!(keys[0].answers(stranger, forwarding), one_way.then_some(keys[1]));
    let [prepared, plain] = [table(16, 16), table(16, 16)];
    let new: PreparedInsert<K> = prepared.prepare_insert(keys, owner, hops(n));
    prepared.prefetch_further(&new);
    prop_assert!(!prepared.conflicts(&new));
    let conn = prepared.insert_prepared(&new, 70);
    let is_tcp = proto == Transport::Tcp;
    let flags = |flags| is_tcp.then(|| segment(flags));
    let expected = plain.insert(&binding, hops(n), 70);
    prop_assert_eq!(conn, expected);
    let conn = conn.unwrap();
    let both = Direction::BOTH.map(|direction| Hit { conn, direction });
    let [there, back] = both;
    // Answers that go past the load balancer are known by no key.
    let hits = &both[..if one_way { 1 } else { 2 }];
    plain.touch(there, flags(TcpFlags::SYN), 70);
    prop_assert_eq!(new.backend(), binding.backend);
    for table in [&prepared, &plain] {
        prop_assert_eq!(table.binding(conn), Some(binding));
        for (&hit, key) in hits.iter().zip(&keys) {
            let flow = binding.key(hit.direction).unwrap();
            prop_assert_eq!(FlowKey::from(key), flow);
            prop_assert_eq!(table.lookup(&flow), Some(hit));
            prop_assert_eq!(table.lookup(key), Some(hit));
        }
        let mut out = [None; 2];
        table.lookup_burst(&keys, &mut out);
        prop_assert_eq!(out, [Some(there), (!one_way).then_some(back)]);
    }
    prop_assert_eq!(prepared.state(conn), plain.state(conn));
    prop_assert_eq!(prepared.idle_ms(conn, 1000), plain.idle_ms(conn, 1000));
    // What is done to the first packet is what is done to all others.
    prepared.touch(back, flags(TcpFlags::SYN | TcpFlags::ACK), 70);
    prepared.touch(there, flags(TcpFlags::ACK), 70);
    if forwarding == Forwarding::Tunnel {
        let served = prepared.serve_tunnel(there, &keys[0], 70);
        prop_assert_eq!((served, new.tunnel()), (Some((owner.1, hops(n)[0])), Some(owner.1)));
        prop_assert!(prepared.serve_marked(there, &keys[0], 70).is_none());
        prop_assert!(prepared.serve_found(there, &keys[0], 70).is_none());
        let others = others(keys[0]);
        prop_assert!(others.iter().all(|key| prepared.serve_tunnel(there, key, 70).is_none()));
        return Ok(());
    }
    prop_assert!(prepared.serve_tunnel(there, &keys[0], 70).is_none() && new.tunnel().is_none());
    let served = prepared.serve_marked(there, &keys[0], 70).unwrap();
    prop_assert_eq!((served.rewrite(), served.hop()), (new.rewrite(), hops(n)[0]));
    for (&hit, key) in hits.iter().zip(keys) {
        let served = prepared.serve_marked(hit, &key, 70).unwrap();
        let found = prepared.serve_found(hit, &key, 70).unwrap();
        prop_assert_eq!((found.rewrite(), found.hop()), (served.rewrite(), served.hop()));
        let action = prepared.action(hit).unwrap();
        prop_assert_eq!(plain.action(hit), Some(action));
        prop_assert_eq!(Some(action.delivery), binding.delivery(hit.direction));
        prop_assert_eq!(served.hop(), action.hop);
        let (net, transport) = match action.delivery {
            Delivery::Rewrite(Rewrite::V4(plan)) => (plan.net_delta, plan.transport_delta),
            Delivery::Rewrite(Rewrite::V6(plan)) => (0, plan.transport_delta),
            Delivery::Direct(_) | Delivery::Tunnel(_) | Delivery::Plain => (0, 0),
        };
        let rewrite = served.rewrite();
        prop_assert_eq!(
            (rewrite.net_delta, rewrite.transport_delta),
            (net.to_be(), transport.to_be())
        );
        // What the packet becomes is the other direction's key turned round.
        let other = binding.key(Direction::BOTH[1 - hit.direction as usize]).unwrap();
        let becomes = words::<K>(other.dst(), other.src(), proto);
        prop_assert_eq!((rewrite.addresses, rewrite.ports), (becomes.addresses, becomes.ports));
        // A stale mark may name a connection that differs in one bit alone, or
        // one that has ended, or one of the other family.
        for other in others(key) {
            prop_assert!(prepared.serve_marked(hit, &other, 70).is_none(), "{:x?}", other);
            // Of IPv6 what the lookup has found is compared, too.
            let found = prepared.serve_found(hit, &other, 70);
            let compared = K == 4 || other.proto != key.proto;
            prop_assert_eq!(found.is_none(), compared, "{:x?}", other);
        }
    }
    plain.remove(conn).unwrap();
    prop_assert!(plain.serve_marked(there, &keys[0], 70).is_none());
    prop_assert_eq!(prepared.conflicts(&new), !one_way);
    prop_assert_eq!(prepared.insert_prepared(&new, 70), Err(InsertError::Exists(there)));
    Ok(())
}

proptest! {
    #[test]
    fn prepared_connections_are_inserted_ones(
        client: (u128, u16), vip: (u128, u16), server: (u128, u16), tcp: bool, n: u32,
    ) {
        let proto = if tcp { Transport::Tcp } else { Transport::Udp };
        for forwarding in [Forwarding::Rewrite, Forwarding::Direct, Forwarding::Tunnel] {
            check::<1>([client, vip, server], proto, forwarding, n)?;
            check::<4>([client, vip, server], proto, forwarding, n)?;
        }
    }
}

/// A hit of the other family serves nobody, whatever the key.
#[test]
fn hits_of_the_other_family_are_refused() {
    let table = table(4, 4);
    let insert = |client: &str, vip: &str, server: &str| {
        let at = |text: &str| text.parse::<SocketAddr>().unwrap();
        let binding = Binding {
            proto: Transport::Udp,
            service: ServiceId(0),
            backend: BackendId(0),
            forwarding: Forwarding::Rewrite,
            client: at(client),
            vip: at(vip),
            server: at(server),
            local: at(client),
        };
        let conn = table.insert(&binding, hops(0), 0).unwrap();
        table.touch(Hit { conn, direction: Direction::Forward }, None, 0);
        (Hit { conn, direction: Direction::Forward }, at(client), at(vip))
    };
    let (v4, client, vip) = insert("10.0.0.1:1", "10.9.0.1:53", "10.1.0.1:53");
    let key4 = words::<1>(client, vip, Transport::Udp);
    let (v6, client, vip) = insert("[fd00::1]:1", "[fd09::1]:53", "[fd01::1]:53");
    let key6 = words::<4>(client, vip, Transport::Udp);
    for hit in [v4, v6] {
        assert_eq!(table.serve_marked(hit, &key4, 0).is_some(), hit == v4);
        assert_eq!(table.serve_found(hit, &key4, 0).is_some(), hit == v4);
        assert_eq!(table.serve_marked(hit, &key6, 0).is_some(), hit == v6);
        assert_eq!(table.serve_found(hit, &key6, 0).is_some(), hit == v6);
    }
}

fn prepare<const K: usize>(
    table: &conntrack::ConnTable,
    ends: [(u128, u16); 3],
    proto: Transport,
) -> PreparedInsert<K>
where
    Key<K>: FastKey<K>,
{
    let [client, vip, server] = ends.map(at::<K>);
    let keys = [words(client, vip, proto), words(server, client, proto)];
    let owner = (ServiceId(0), BackendId(0), Forwarding::Rewrite);
    table.prepare_insert(keys, owner, hops(0))
}

fn a_full_table_says_so<const K: usize>()
where
    Key<K>: FastKey<K>,
{
    let table = table(3, 3);
    let full = || if K == 1 { table.stats().v4.full } else { table.stats().v6.full };
    let open = |port| {
        let new = prepare::<K>(&table, [(7, port), (9, 80), (11, 8080)], Transport::Udp);
        table.insert_prepared(&new, 0)
    };
    for port in 0..3 {
        assert!(!table.refuses::<K>());
        open(port).unwrap();
    }
    assert_eq!(full(), 0);
    assert!(table.refuses::<K>());
    assert_eq!(full(), 1);
    assert_eq!(open(3), Err(InsertError::Full));
    let gone = words::<K>(at::<K>((7, 1)), at::<K>((9, 80)), Transport::Udp);
    table.remove(table.lookup(&gone).unwrap().conn).unwrap();
    assert!(table.refuses::<K>(), "not yet reclaimed");
    table.reclaim();
    assert!(!table.refuses::<K>());
    open(3).unwrap();
}

#[test]
fn a_full_table_says_so_and_counts_refusals() {
    a_full_table_says_so::<1>();
    a_full_table_says_so::<4>();
}

#[test]
fn client_and_server_are_two() {
    let table = table(3, 3);
    let new = |port| prepare::<1>(&table, [(7, 1), (7, 1), (7, port)], Transport::Tcp);
    assert_eq!(table.insert_prepared(&new(1), 0), Err(InsertError::Loop));
    table.insert_prepared(&new(2), 0).unwrap();
}
