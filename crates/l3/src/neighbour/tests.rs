//! Tests of the table of neighbours.
use std::net::Ipv4Addr;

use super::*;

const IF: InterfaceId = InterfaceId(3);
const MAC: Mac = Mac([2, 1, 2, 3, 4, 5]);

fn ip(n: u32) -> IpAddr {
    IpAddr::V4(Ipv4Addr::from_bits(n))
}

#[test]
fn a_hop_is_entered_learnt_expired_and_forgotten() {
    let table = NeighbourTable::new(64, 7);
    let six: IpAddr = "fe80::1".parse().unwrap();
    for addr in [ip(1), six] {
        assert_eq!(table.learn(IF, addr, MAC, 5), Learnt::Unknown, "only known hops");
        let hop = table.hop(IF, addr, 0).unwrap();
        assert_eq!(table.hop(IF, addr, 0), Some(hop));
        assert_eq!(table.resolve(hop, 0), Some((IF, None)));
        assert_eq!(table.learn(IF, addr, MAC, 5), Learnt::Confirmed);
        assert_eq!(table.resolve(hop, 10), Some((IF, Some(MAC))));
        table.expire(hop);
        let neighbour = table.get(hop).unwrap();
        assert_eq!((neighbour.state, neighbour.addr), (NeighbourState::Stale, addr));
        assert_eq!(table.resolve(hop, 10), Some((IF, Some(MAC))), "stale is still used");
        table.give_up(hop);
        assert_eq!(table.resolve(hop, 10), Some((IF, None)));
        table.forget(hop);
        assert_eq!(table.get(hop), None);
        let again = table.hop(IF, addr, 0).unwrap();
        assert_ne!(again, hop, "the name isn't given twice");
        assert_eq!(table.learn(IF, addr, MAC, 5), Learnt::Confirmed);
        assert_eq!(table.resolve(hop, 10), None, "the old name means nothing");
    }
}

#[test]
fn static_entries_stay() {
    let table = NeighbourTable::new(64, 7);
    let hop = table.set_static(IF, ip(9), MAC).unwrap();
    assert_eq!(table.learn(IF, ip(9), Mac::BROADCAST, 1), Learnt::Refused);
    table.expire(hop);
    table.forget(hop);
    assert_eq!(table.resolve(hop, 1), Some((IF, Some(MAC))));
}

#[test]
fn a_static_neighbour_makes_no_room_even_if_all_others_are_in_use() {
    let table = NeighbourTable::new(WINDOW, 1);
    let hop = table.set_static(IF, ip(200), MAC).unwrap();
    for n in 1..WINDOW as u32 {
        table.hop(IF, ip(n), 100_000).unwrap();
        table.learn(IF, ip(n), Mac([2, 0, 0, 0, 0, n as u8]), 100_000);
    }
    assert_eq!(table.hop(IF, ip(99), 100_000), None);
    assert_eq!(table.resolve(hop, 100_000), Some((IF, Some(MAC))));
}

/// A table of one window, full of neighbours that have answered at `now_ms`.
fn full(now_ms: u64) -> (NeighbourTable, Vec<HopId>) {
    let table = NeighbourTable::new(WINDOW, 1);
    let hops = (0..WINDOW as u32).map(|n| {
        let hop = table.hop(IF, ip(n), now_ms).unwrap();
        table.learn(IF, ip(n), Mac([2, 0, 0, 0, 0, n as u8]), now_ms);
        hop
    });
    let hops = hops.collect();
    (table, hops)
}

#[test]
fn neighbours_in_use_make_no_room() {
    let (table, hops) = full(100_000);
    assert_eq!(table.hop(IF, ip(99), 100_000), None);
    // The one that no packet has used for longest makes room once it is idle.
    for (n, hop) in hops.iter().enumerate().filter(|(n, _)| *n != 7) {
        let _ = table.resolve(*hop, 120_000 + n as u64);
    }
    assert_eq!(table.hop(IF, ip(99), 130_000), None);
    let new = table.hop(IF, ip(99), 130_001).unwrap();
    assert_eq!((table.get(hops[7]), table.get(new).unwrap().addr), (None, ip(99)));
    // An unanswered one is the first to go, however young.
    let newer = table.hop(IF, ip(98), 130_001).unwrap();
    assert_eq!((table.get(new), table.get(newer).unwrap().addr), (None, ip(98)));
}

#[test]
fn the_oldest_unanswered_neighbour_makes_room_of_its_own_interface_first() {
    let table = NeighbourTable::new(WINDOW, 1);
    let other = InterfaceId(4);
    let kept = table.hop(IF, ip(0), 0).unwrap();
    table.keep(kept, true);
    let elsewhere = table.hop(other, ip(0), 0).unwrap();
    for n in 1..200 {
        assert!(table.hop(IF, ip(n), n.into()).is_some());
    }
    assert!(table.get(kept).is_some() && table.get(elsewhere).is_some());
    let left: Vec<_> = table.iter().filter(|own| own.interface == IF && !own.kept).collect();
    assert!(left.iter().all(|own| own.addr >= ip(200 - left.len() as u32)));
    // Another interface displaces those that have none of its own to lose.
    assert!(table.hop(InterfaceId(5), ip(0), 500).is_some());
    assert!(table.get(kept).is_some());
    table.keep(kept, false);
    (200..240).for_each(|n| assert!(table.hop(IF, ip(n), n.into()).is_some()));
    assert_eq!(table.get(kept), None);
}

#[test]
fn a_station_has_no_more_than_half_a_window_against_others() {
    let (table, hops) = full(100_000);
    for n in 0..10 {
        table.learn(IF, ip(n), MAC, 102_000);
        let _ = table.resolve(hops[n as usize], 102_000 + u64::from(n));
    }
    let new = table.hop(IF, ip(99), 102_500).unwrap();
    assert_eq!((table.get(hops[0]), table.get(new).unwrap().addr), (None, ip(99)));
    assert!(hops[10..].iter().all(|hop| table.get(*hop).is_some()));
}

#[test]
fn what_was_only_heard_of_is_the_first_to_go() {
    let (table, _) = full(100_000);
    let table_of_heard = NeighbourTable::new(WINDOW, 1);
    for n in 0..5 * WINDOW as u32 {
        assert!(table_of_heard.hear_of(IF, ip(n), 100_000).is_some());
        table_of_heard.learn(IF, ip(n), Mac([2, 0, 0, 0, 1, n as u8]), 100_000);
    }
    assert_eq!(table.hear_of(IF, ip(99), 100_000), None, "those in use stay");
}

#[test]
fn a_change_is_reported_once_and_refused_where_addresses_are_pinned() {
    let table = NeighbourTable::new(64, 7);
    let (hop, other) = (table.hop(IF, ip(1), 5000).unwrap(), Mac([2; 6]));
    assert_eq!(table.learn(IF, ip(1), MAC, 5000), Learnt::Confirmed);
    let moves = table.moves();
    let _ = table.resolve(hop, 6000);
    assert_eq!(table.learn(IF, ip(1), other, 6000), Learnt::Changed);
    assert_eq!((table.moves(), table.get(hop).unwrap().mac), (moves + 1, Some(other)));
    let at = NeighbourTable::slot_of(hop);
    let change = table.take_change(at).unwrap();
    assert_eq!((change.former, change.neighbour.mac), (MAC, Some(other)));
    assert_eq!(table.take_change(at), None);
    table.set_pinned(true);
    assert_eq!(table.learn(IF, ip(1), MAC, 60_000), Learnt::Refused);
    assert_eq!(table.learn(IF, ip(1), other, 60_000), Learnt::Confirmed);
    // Pinned as long as it answers.
    table.expire(hop);
    assert_eq!(table.learn(IF, ip(1), MAC, 70_000), Learnt::Refused);
    table.give_up(hop);
    assert_eq!(table.learn(IF, ip(1), MAC, 80_000), Learnt::Confirmed);
}

#[test]
fn only_changes_of_what_is_in_use_are_moves() {
    let table = NeighbourTable::new(64, 7);
    let used = table.hop(IF, ip(1), 10_000).unwrap();
    table.learn(IF, ip(1), MAC, 10_000);
    table.expire(used);
    table.learn(IF, ip(1), MAC, 10_000);
    let heard = table.hear_of(IF, ip(2), 10_000).unwrap();
    table.learn(IF, ip(2), MAC, 10_000);
    table.learn(IF, ip(2), Mac([2; 6]), 12_000);
    table.expire(heard);
    table.forget(heard);
    assert_eq!(table.moves(), 0);
    table.expire(used);
    table.give_up(used);
    assert_eq!(table.moves(), 1);
    table.set_static(IF, ip(1), MAC);
    assert_eq!(table.moves(), 2);
}

/// Threads enter, learn and forget addresses in a crowded table; a thread that
/// resolves a hop that was found for an address gets that address's own
/// Ethernet address or none.
#[test]
fn a_hop_never_leads_to_another_neighbour() {
    let table = NeighbourTable::new(16, 3);
    let mac = |n: u32| Mac([2, 0, (n >> 24) as u8, (n >> 16) as u8, (n >> 8) as u8, n as u8]);
    let work = |start: u32| {
        let mut resolved = 0;
        for step in 0..60_000u32 {
            let n = (start + step.wrapping_mul(7)) % 48;
            let Some(hop) = table.hop(IF, ip(n), 0) else { continue };
            table.learn(IF, ip(n), mac(n), 1);
            if let Some((interface, Some(found))) = table.resolve(hop, 1) {
                assert_eq!((interface, found), (IF, mac(n)));
                resolved += 1;
            }
            table.expire(hop);
            table.forget(hop);
        }
        resolved
    };
    std::thread::scope(|scope| {
        let threads = [0, 11, 23].map(|start| scope.spawn(move || work(start)));
        for thread in threads {
            assert!(thread.join().unwrap() > 0);
        }
    });
}
