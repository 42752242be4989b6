//! What one thread sees.
#![cfg(not(loom))]
#![allow(clippy::unwrap_used, clippy::panic)]
use crate::common;

use common::{binding, hops, segment, table};
use conntrack::{ConnId, Event, Hit, InsertError, IterPlace, OffloadState};
use flow::Direction;
use service::Binding;
use wire::TcpFlags;

#[test]
fn a_connection_is_found_by_both_keys_and_acts_as_its_binding() {
    for (n, v6) in [(0, false), (1, false), (0, true), (1, true)] {
        let table = table(16, 16);
        let binding = binding(n, v6);
        let conn = table.insert(&binding, hops(n), 5).unwrap();
        assert_eq!(conn.is_v6(), v6);
        for direction in Direction::BOTH {
            let hit = table.lookup(&binding.key(direction).unwrap()).unwrap();
            assert_eq!(hit, Hit { conn, direction });
            let action = table.action(hit).unwrap();
            assert_eq!(action.delivery, binding.delivery(direction).unwrap());
            assert_eq!(action.hop, hops(n)[direction.index()]);
            assert_eq!((action.service, action.backend), (binding.service, binding.backend));
        }
        assert_eq!(table.binding(conn), Some(binding));
        assert_eq!(table.len(), 1);
        assert_eq!(table.remove(conn), Some(binding));
        assert_eq!(table.remove(conn), None);
        assert_eq!(table.lookup(&binding.key(Direction::Forward).unwrap()), None);
        assert_eq!(table.lookup(&binding.key(Direction::Reply).unwrap()), None);
        assert!(table.is_empty() && !table.is_live(conn));
    }
}

#[test]
fn one_way_connections_are_known_by_the_clients_packets_only() {
    let connections = if cfg!(miri) { 40 } else { 5000 };
    let table = table(connections, connections);
    for v6 in [false, true] {
        let bindings = || (0..).map(|n| binding(n, v6)).filter(|new| new.forwarding.is_one_way());
        let all = || bindings().take(connections);
        let insert = |binding: &Binding| table.insert(binding, hops(1), 0);
        let found = |binding: &Binding, direction| table.lookup(&binding.key(direction).unwrap());
        let conns: Vec<ConnId> = all().map(|binding| insert(&binding).unwrap()).collect();
        for (binding, &conn) in all().zip(&conns) {
            let there = Hit { conn, direction: Direction::Forward };
            assert_eq!(insert(&binding), Err(InsertError::Exists(there)));
            assert_eq!(found(&binding, Direction::Forward), Some(there));
            assert_eq!(found(&binding, Direction::Reply), None);
            assert_eq!(table.binding(conn), Some(binding));
        }
        let more = bindings().nth(connections).unwrap();
        assert_eq!(insert(&more), Err(InsertError::Full));
        for (binding, conn) in all().zip(conns) {
            assert_eq!(table.remove(conn), Some(binding));
            assert_eq!(found(&binding, Direction::Forward), None);
        }
        while table.reclaim() > 0 {}
        assert!(all().all(|binding| insert(&binding).is_ok()), "every place is free again");
    }
}

#[test]
fn keys_are_unique() {
    let table = table(16, 16);
    let first = binding(2, false);
    let conn = table.insert(&first, hops(2), 0).unwrap();
    let hit = |direction| Hit { conn, direction };
    let exists = InsertError::Exists(hit(Direction::Forward));
    assert_eq!(table.insert(&first, hops(2), 0), Err(exists));
    let mut second = binding(4, false);
    second.local = first.local;
    (second.server, second.forwarding) = (first.server, first.forwarding);
    let conflict = InsertError::ReplyConflict(hit(Direction::Reply));
    assert_eq!(table.insert(&second, hops(4), 0), Err(conflict));
    let mut mixed = binding(6, false);
    mixed.server = binding(6, true).server;
    assert_eq!(table.insert(&mixed, hops(6), 0), Err(InsertError::MixedFamilies));
    let mut looped = binding(8, false);
    (looped.server, looped.local) = (looped.client, looped.vip);
    assert_eq!(table.insert(&looped, hops(8), 0), Err(InsertError::Loop));
    assert_eq!(table.len(), 1);
}

#[test]
fn a_removed_record_waits_for_every_reader() {
    let table = table(1, 0);
    let (one, two) = (table.register().unwrap(), table.register().unwrap());
    let conn = table.insert(&binding(0, false), hops(0), 0).unwrap();
    table.remove(conn).unwrap();
    let full = |n| table.insert(&binding(n, false), hops(n), 0) == Err(InsertError::Full);
    assert!(full(2));
    assert_eq!(table.reclaim(), 0);
    one.quiesce();
    assert_eq!(table.reclaim(), 0);
    assert!(full(2));
    two.quiesce();
    assert_eq!(table.reclaim(), 1);
    let again = table.insert(&binding(2, false), hops(2), 0).unwrap();
    assert_eq!((again, table.generation(again)), (conn, Some(2)));
    table.remove(again).unwrap();
    drop(two);
    table.reclaim();
    one.quiesce();
    assert_eq!(table.reclaim(), 1);
    drop(one);
    // Without readers nothing has to be waited for.
    let third = table.insert(&binding(4, false), hops(4), 0).unwrap();
    table.remove(third).unwrap();
    assert_eq!(table.reclaim(), 1);
}

#[test]
fn readers_are_bounded_and_their_places_are_reused() {
    let table = table(1, 1);
    let readers: Vec<_> = (0..conntrack::MAX_READERS).map(|_| table.register().unwrap()).collect();
    assert!(table.register().is_err());
    drop(readers);
    assert!(table.register().is_ok());
}

#[test]
fn one_party_changes_the_offload_state() {
    use OffloadState as O;
    let table = table(1, 1);
    let conn = table.insert(&binding(0, true), hops(0), 0).unwrap();
    assert_eq!(table.offloaded(conn), Some(O::None));
    assert!(table.change_offload(conn, O::None, O::Wanted));
    assert!(!table.change_offload(conn, O::None, O::Wanted));
    assert!(table.change_offload(conn, O::Wanted, O::Installed));
    let hit = Hit { conn, direction: Direction::Forward };
    table.touch(hit, Some(segment(TcpFlags::SYN)), 0);
    assert_eq!(table.offloaded(conn), Some(O::Installed));
    table.remove(conn).unwrap();
    assert!(!table.change_offload(conn, O::Installed, O::None));
    assert_eq!(table.offloaded(conn), None);
}

#[test]
fn any_id_is_answered() {
    let table = table(2, 0);
    for raw in [0, 1, 2, 5, u32::MAX, 1 << 31, (1 << 31) - 1] {
        let conn = conntrack::ConnId::from_raw(raw);
        let hit = Hit { conn, direction: Direction::Reply };
        assert_eq!(table.action(hit), None);
        assert_eq!(table.touch(hit, None, 0), Event::None);
        assert_eq!(table.state(conn), None);
        assert_eq!(table.idle_ms(conn, 0), None);
        assert!(!table.rearm(conn, 0));
        assert!(table.remove(conn).is_none());
        table.prefetch(conn);
    }
}

#[test]
fn a_walk_in_slices_shows_what_a_whole_walk_shows() {
    let table = table(64, 64);
    for n in 0..20 {
        table.insert(&binding(n, n % 3 == 0), hops(1), 0).unwrap();
    }
    let (mut whole, mut slices) = (Vec::new(), 0);
    table.iter(0, &mut |conn, _| whole.push(conn));
    assert_eq!(whole.len(), 20);
    for budget in [1, 2, 7, 13, 1000] {
        let (mut place, mut seen) = (IterPlace::default(), Vec::new());
        while table.iter_slice(0, &mut place, budget, &mut |conn, _| seen.push(conn)) {
            assert!(seen.len() <= (slices + 1) * budget, "no slice goes beyond its budget");
            slices += 1;
        }
        assert_eq!(seen, whole, "budget {budget}");
        slices = 0;
    }
}
