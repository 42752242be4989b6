//! Lookups while entries move and slots change hands.
use flow::Direction;
use loom::sync::Arc;
use loom::thread;
use wire::Transport;

use super::{content, found, shift, table, with_buckets, with_preemptions};
use crate::bucket::{Entry, Reference};
use crate::index::Place;
use crate::key::Key;

#[test]
fn a_lookup_finds_what_moves_there_and_back() {
    with_preemptions(2, || {
        let table = Arc::new(table(1));
        let one = with_buckets(&table, 1, [(0, 1), (2, 2)]);
        table.insert(&one, 0).unwrap();
        let reading = thread::spawn({
            let table = Arc::clone(&table);
            move || {
                // Without the quick look before, which hides most misses.
                let is_it = |found| table.is(found, &one.keys[0]);
                let found = table.index().find_surely(&table.probe(&one.keys[0]), is_it);
                assert_eq!(found, Some(Reference::new(0, Direction::Forward)));
            }
        });
        let probe = table.probe(&one.keys[0]);
        assert!(shift(&table, &probe, 0));
        assert!(shift(&table, &probe, 1));
        reading.join().unwrap();
        assert_eq!(found(&table, &one, Direction::Forward), Some(0));
    });
}

/// A key spills, or comes home, while it is looked for: as a single lookup does
/// (`BOTH`), or as a burst.
fn spilling<const BOTH: bool>(comes_home: bool) {
    with_preemptions(3, move || {
        let table = Arc::new(table(1));
        let one = with_buckets(&table, 1, [(0, 1), (2, 2)]);
        table.insert(&one, 0).unwrap();
        let probe = table.probe(&one.keys[0]);
        if comes_home {
            assert!(shift(&table, &probe, 0));
        }
        let reading = thread::spawn({
            let table = Arc::clone(&table);
            move || {
                let found = table.look::<BOTH>(&one.keys[0]);
                let there = Some(Reference::new(0, Direction::Forward));
                assert!(found.is_none_or(|found| found == there), "{found:?}");
            }
        });
        assert!(shift(&table, &probe, usize::from(comes_home)));
        reading.join().unwrap();
        assert_eq!(table.index().bucket(0).has_spilled(), !comes_home);
    });
}

#[test]
fn a_burst_finds_what_spills() {
    spilling::<false>(false);
}

#[test]
fn a_burst_finds_what_comes_home() {
    spilling::<false>(true);
}

#[test]
fn a_single_lookup_finds_what_spills() {
    spilling::<true>(false);
}

#[test]
fn a_single_lookup_finds_what_comes_home() {
    spilling::<true>(true);
}

/// A move elsewhere is going on while a key in another stripe moves: the reader
/// believes the stripes of its own buckets, which show the key's move.
#[test]
fn a_lookup_tells_its_own_keys_moves_from_others() {
    with_preemptions(2, || {
        let table = Arc::new(table(2));
        let mine = with_buckets(&table, 1, [(0, 1), (2, 2)]);
        let other = with_buckets(&table, mine.hops[0].0 + 1, [(2, 0), (1, 1)]);
        table.insert(&mine, 0).unwrap();
        table.insert(&other, 0).unwrap();
        let moves = table.index().moves();
        let probe = table.probe(&mine.keys[0]);
        let reading = thread::spawn({
            let table = Arc::clone(&table);
            move || {
                let found = table.look::<true>(&mine.keys[0]);
                let there = Some(Reference::new(0, Direction::Forward));
                assert!(found.is_none_or(|found| found == there), "{found:?}");
            }
        });
        // The clock moves on by a step that concerns another stripe alone.
        moves.step([2, 2]);
        assert!(shift(&table, &probe, 0));
        reading.join().unwrap();
    });
}

/// The keeper brings a key home while its connection ends and another one's key
/// takes the slot.
#[test]
fn what_is_brought_home_is_what_is_there() {
    with_preemptions(2, || {
        let table = Arc::new(table(2));
        let old = with_buckets(&table, 1, [(0, 1), (2, 2)]);
        let new = with_buckets(&table, old.hops[0].0 + 1, [(1, 0), (2, 2)]);
        table.insert(&old, 0).unwrap();
        assert!(shift(&table, &table.probe(&old.keys[0]), 0));
        let changing = thread::spawn({
            let table = Arc::clone(&table);
            move || {
                assert_eq!(table.remove(0), Some(old));
                assert_eq!(table.insert(&new, 0), Ok(1));
            }
        });
        table.index().bring_home(1);
        changing.join().unwrap();
        assert_eq!(found(&table, &old, Direction::Forward), None);
        assert_eq!(found(&table, &new, Direction::Forward), Some(1));
        assert_eq!(table.index().spilled(), 0);
    });
}

/// Another key comes home meanwhile, so that the count of those that have
/// spilled changes, but not to nothing.
#[test]
fn a_burst_finds_what_stays_spilled() {
    with_preemptions(3, || {
        let table = Arc::new(table(2));
        let stays = with_buckets(&table, 1, [(0, 1), (2, 2)]);
        let goes = with_buckets(&table, stays.hops[0].0 + 1, [(0, 1), (2, 2)]);
        for content in [&stays, &goes] {
            table.insert(content, 0).unwrap();
            assert!(shift(&table, &table.probe(&content.keys[0]), 0));
        }
        let reading = thread::spawn({
            let table = Arc::clone(&table);
            move || {
                let found = table.look::<false>(&stays.keys[0]);
                let there = Some(Reference::new(0, Direction::Forward));
                assert!(found.is_none_or(|found| found == there), "{found:?}");
            }
        });
        assert_eq!(table.remove(1), Some(goes));
        reading.join().unwrap();
    });
}

/// A slot that changes hands twice and has its first entry back in the end must
/// not give that entry's reference for the other one's key.
#[test]
fn a_slot_of_two_entries_in_turn_is_no_mixture() {
    with_preemptions(3, || {
        let table = Arc::new(table(2));
        let mine = with_buckets(&table, 1, [(0, 1), (2, 2)]);
        // Same ports, so that the words differ in the addresses only.
        let yours = (1..60_000)
            .map(|n| {
                let mut other = content(n);
                other.keys[0].ports = mine.keys[0].ports;
                other
            })
            .find(|other| {
                let probe = table.probe(&other.keys[0]);
                other.keys[0] != mine.keys[0] && (probe.first(), probe.second()) == (0, 2)
            })
            .unwrap();
        let probes = [&mine, &yours].map(|content| table.probe(&content.keys[0]));
        let reference = |number| Reference::new(number, Direction::Forward);
        let place = Place { bucket: 0, slot: 0 };
        table.index().bucket(0).lock();
        table.index().put(place, &probes[0], Entry::new(probes[0].sought, reference(0)));
        table.index().bucket(0).unlock();
        let reading = thread::spawn({
            let table = Arc::clone(&table);
            move || {
                let found = table.look::<true>(&yours.keys[0]);
                assert!(found.flatten().is_none_or(|found| found == reference(1)), "{found:?}");
            }
        });
        let table = &*table;
        assert!(shift(table, &probes[0], 0));
        let bucket = table.index().bucket(0);
        bucket.lock();
        table.index().put(place, &probes[1], Entry::new(probes[1].sought, reference(1)));
        bucket.clear(0);
        bucket.unlock();
        assert!(shift(table, &probes[0], 1));
        reading.join().unwrap();
    });
}

/// An entry goes and another comes into its slot: no mixture either.
#[test]
fn a_slot_that_changes_hands_is_no_mixture() {
    with_preemptions(3, || {
        let table = Arc::new(table(2));
        let old = with_buckets(&table, 1, [(0, 1), (2, 2)]);
        let new = with_buckets(&table, old.hops[0].0 + 1, [(0, 1), (2, 2)]);
        // The old one's addresses with the new one's ports and the reverse.
        let [(a, b), (c, d)] =
            [&old, &new].map(|content| (content.keys[0].addresses, content.keys[0].ports));
        table.insert(&old, 0).unwrap();
        let reading = thread::spawn({
            let table = Arc::clone(&table);
            move || {
                for (addresses, ports) in [(a, d), (c, b)] {
                    let key = Key { addresses, ports, proto: Transport::Tcp };
                    let sought = table.sought(&key);
                    for bucket in [0, 1] {
                        let found = table.index().bucket(bucket).matching(sought).next();
                        assert_eq!(found, None);
                    }
                }
            }
        });
        assert_eq!(table.remove(0), Some(old));
        assert_eq!(table.insert(&new, 0), Ok(1));
        reading.join().unwrap();
        assert_eq!(found(&table, &new, Direction::Forward), Some(1));
    });
}
