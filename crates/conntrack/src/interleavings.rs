//! Model checking: every interleaving (up to a number of preemptions) of a few
//! threads on a tiny table, under the C11 memory model as loom knows it.
//!
//! The thread that writes is the model's first one. Loom remembers only the
//! last load of each atomic: a writer that reads a word before it writes it
//! hides an earlier load by another thread, and orders are left out. With the
//! writer in front every later load finds the write it competes with.
//!
//! `RUSTFLAGS="--cfg loom" LOOM_MAX_PREEMPTIONS=3 cargo test -p conntrack --lib --release`
#![allow(clippy::unwrap_used, clippy::panic)]

use std::sync::Arc as Untracked;

use loom::sync::Arc;
use loom::thread;
use service::{BackendId, Direction, Forwarding, HopId, ServiceId};
use wire::{TcpFlags, Transport};

use crate::bucket::{Entry, Reference};
use crate::family::FamilyTable;
use crate::index::{Place, Probe};
use crate::insert::Refusal;
use crate::key::{Deltas, Key};
use crate::path::Room;
use crate::readers::Readers;
use crate::record::Content;
use crate::stack::{Chain, Stack};
use crate::state::ConnState;
use crate::sync::AtomicU32;

type Table = FamilyTable<1>;
type Shared = (Stack, [AtomicU32; 2]);

/// With so many preemptions at most: locks share words with what is read, so
/// readers have many values to choose from, and models grow quickly.
fn with_preemptions(most: usize, model: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(builder.preemption_bound.map_or(most, |bound| bound.min(most)));
    builder.check(model);
}

/// Three buckets of two slots, `records` records.
fn table(records: usize) -> Table {
    Table::new(records, 3, &[3; 32]).unwrap()
}

/// Connection number `n`; every field tells `n`.
fn content(n: u32) -> Content<1> {
    let key = |net: u64| Key {
        addresses: [net << 56 | u64::from(n) << 32 | u64::from(n)],
        ports: n << 16 | n,
        proto: Transport::Tcp,
    };
    Content {
        keys: [key(10), key(172)],
        deltas: [Deltas { net: n as u16, transport: n as u16 }; 2],
        hops: [HopId(n), HopId(n)],
        service: ServiceId(n as u16),
        backend: BackendId(n as u16),
        forwarding: Forwarding::Rewrite,
    }
}

/// The first connection from number `from` on whose forward and reply key have
/// these buckets.
fn with_buckets(table: &Table, from: u32, buckets: [(usize, usize); 2]) -> Content<1> {
    (from..60_000)
        .map(content)
        .find(|content| {
            let probes = content.keys.each_ref().map(|key| table.probe(key));
            probes.map(|probe| (probe.first(), probe.second())) == buckets
        })
        .unwrap()
}

fn place_of(table: &Table, bucket: usize, probe: &Probe) -> Option<Place> {
    (0..2)
        .find(|&slot| {
            let entry = table.index().bucket(bucket).load(slot);
            !entry.is_empty() && entry.sought() == probe.sought
        })
        .map(|slot| Place { bucket, slot })
}

/// Moves the entry of `probe` out of `bucket`.
fn shift(table: &Table, probe: &Probe, bucket: usize) -> bool {
    let from = place_of(table, bucket, probe).unwrap();
    let entry = table.index().bucket(bucket).load(from.slot);
    let to = table.index().vacancy(table.index().other(bucket, entry), None).unwrap();
    table.index().shift(from, to)
}

fn found(table: &Table, content: &Content<1>, direction: Direction) -> Option<u32> {
    let reference = table.lookup(&content.keys[direction.index()])?;
    assert_eq!(reference.direction(), direction);
    Some(reference.record())
}

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

/// What spills, or comes home, while a burst looks for it.
fn spilling(comes_home: bool) {
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
                let found = table.burst_look(&one.keys[0]);
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
    spilling(false);
}

#[test]
fn a_burst_finds_what_comes_home() {
    spilling(true);
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
                let found = table.burst_look(&stays.keys[0]);
                let there = Some(Reference::new(0, Direction::Forward));
                assert!(found.is_none_or(|found| found == there), "{found:?}");
            }
        });
        assert_eq!(table.remove(1), Some(goes));
        reading.join().unwrap();
    });
}

/// An insertion that looks into the first bucket only must know that the key
/// is in neither.
#[test]
fn an_insertion_finds_its_key_while_it_moves() {
    for comes_home in [false, true] {
        with_preemptions(3, move || {
            let table = Arc::new(table(2));
            let one = with_buckets(&table, 1, [(0, 1), (2, 2)]);
            table.insert(&one, 0).unwrap();
            let probe = table.probe(&one.keys[0]);
            if comes_home {
                assert!(shift(&table, &probe, 0));
            }
            // Only the forward key is the same.
            let other = with_buckets(&table, one.hops[0].0 + 1, [(0, 1), (2, 2)]);
            let twin = Content { keys: [one.keys[0], other.keys[1]], ..other };
            let inserting = thread::spawn({
                let table = Arc::clone(&table);
                move || table.insert(&twin, 0)
            });
            assert!(shift(&table, &probe, usize::from(comes_home)));
            let exists = Refusal::Exists(Reference::new(0, Direction::Forward));
            assert_eq!(inserting.join().unwrap(), Err(exists));
        });
    }
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
                let found = table.glance(&yours.keys[0]);
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

#[test]
fn a_lookup_finds_what_an_insertion_moves() {
    with_preemptions(3, || {
        let table = Arc::new(table(3));
        let first = with_buckets(&table, 1, [(0, 1), (2, 2)]);
        let second = with_buckets(&table, 1, [(0, 0), (2, 2)]);
        let third = with_buckets(&table, second.hops[0].0 + 1, [(0, 0), (1, 0)]);
        table.insert(&first, 0).unwrap();
        table.insert(&second, 0).unwrap();
        let reading = thread::spawn({
            let table = Arc::clone(&table);
            move || assert_eq!(found(&table, &first, Direction::Forward), Some(0))
        });
        // What an insertion does when it has found no room; all of it would be
        // too many steps.
        assert_eq!(table.index().make_room(&table.probe(&third.keys[0]), None), Room::Made);
        reading.join().unwrap();
        assert_eq!(table.insert(&third, 0), Ok(2));
        assert_eq!(table.stats().moves, 1);
        assert_eq!(found(&table, &first, Direction::Forward), Some(0));
        assert_eq!(found(&table, &third, Direction::Forward), Some(2));
        assert_eq!(found(&table, &third, Direction::Reply), Some(2));
    });
}

#[test]
fn one_of_two_equal_insertions_wins() {
    with_preemptions(3, || {
        let table = Arc::new(table(2));
        let inserting = thread::spawn({
            let table = Arc::clone(&table);
            move || table.insert(&content(1), 0)
        });
        let results = [table.insert(&content(1), 0), inserting.join().unwrap()];
        let exists = Err(Refusal::Exists(Reference::new(0, Direction::Forward)));
        assert!(results == [Ok(0), exists] || results == [exists, Ok(0)], "{results:?}");
        assert_eq!(table.stats().len, 1);
    });
}

#[test]
fn of_two_connections_with_one_reply_key_one_is_inserted_whole() {
    with_preemptions(3, || {
        let table = Arc::new(table(2));
        let (one, two) =
            (content(1), Content { keys: [content(2).keys[0], content(1).keys[1]], ..content(2) });
        let inserting = thread::spawn({
            let table = Arc::clone(&table);
            move || table.insert(&two, 0)
        });
        let results = [table.insert(&one, 0), inserting.join().unwrap()];
        let conflict = Err(Refusal::ReplyConflict(Reference::new(0, Direction::Reply)));
        assert!(results == [Ok(0), conflict] || results == [conflict, Ok(0)], "{results:?}");
        assert_eq!(found(&table, &one, Direction::Reply), Some(0));
        let forward = [&one, &two].map(|content| found(&table, content, Direction::Forward));
        assert_eq!(forward, results.map(Result::ok));
    });
}

#[test]
fn insertion_and_removal_leave_others_alone() {
    with_preemptions(2, || {
        let table = Arc::new(table(3));
        let stays = with_buckets(&table, 1, [(0, 1), (2, 2)]);
        let goes = with_buckets(&table, stays.hops[0].0 + 1, [(0, 1), (1, 0)]);
        let comes = with_buckets(&table, goes.hops[0].0 + 1, [(0, 1), (2, 1)]);
        table.insert(&stays, 0).unwrap();
        table.insert(&goes, 0).unwrap();
        let inserting = thread::spawn({
            let table = Arc::clone(&table);
            move || assert_eq!(table.insert(&comes, 0), Ok(2))
        });
        let reading = thread::spawn({
            let table = Arc::clone(&table);
            move || assert_eq!(found(&table, &stays, Direction::Forward), Some(0))
        });
        assert_eq!(table.remove(1), Some(goes));
        reading.join().unwrap();
        inserting.join().unwrap();
        for direction in Direction::BOTH {
            assert_eq!(found(&table, &stays, direction), Some(0));
            assert_eq!(found(&table, &goes, direction), None);
            assert_eq!(found(&table, &comes, direction), Some(2));
        }
    });
}

#[test]
fn one_of_two_removals_gets_the_connection_and_no_state_revives_it() {
    with_preemptions(3, || {
        let table = Arc::new(table(1));
        table.insert(&content(1), 0).unwrap();
        let removing = thread::spawn({
            let table = Arc::clone(&table);
            move || table.remove(0)
        });
        let ageing = thread::spawn({
            let table = Arc::clone(&table);
            move || {
                let record = table.record(0).unwrap();
                record.count(Direction::Forward, Some(TcpFlags(TcpFlags::SYN)), 1)
            }
        });
        let removed = [table.remove(0), removing.join().unwrap()];
        ageing.join().unwrap();
        assert_eq!(removed.into_iter().flatten().collect::<Vec<_>>(), [content(1)]);
        assert!(!table.record(0).unwrap().life().is_live());
        assert_eq!(found(&table, &content(1), Direction::Forward), None);
    });
}

#[test]
fn states_are_not_lost() {
    with_preemptions(3, || {
        let table = Arc::new(table(1));
        table.insert(&content(1), 0).unwrap();
        let packet = |table: &Table, direction, flags| {
            table.record(0).unwrap().count(direction, Some(TcpFlags(flags)), 1);
        };
        packet(&table, Direction::Forward, TcpFlags::ACK);
        packet(&table, Direction::Reply, TcpFlags::ACK);
        let server = thread::spawn({
            let table = Arc::clone(&table);
            move || packet(&table, Direction::Reply, TcpFlags::FIN)
        });
        packet(&table, Direction::Forward, TcpFlags::FIN);
        server.join().unwrap();
        assert_eq!(table.record(0).unwrap().life().state().now(), ConnState::Closing);
    });
}

/// A worker that found a connection reads its record until it quiesces, while
/// another removes it, reclaims and inserts.
#[test]
fn a_record_is_not_reused_under_a_reader() {
    with_preemptions(2, || {
        let table = Arc::new(table(1));
        let readers = Untracked::new(Readers::new());
        table.insert(&content(1), 0).unwrap();
        let reader = readers.register().unwrap();
        let reading = thread::spawn({
            let table = Arc::clone(&table);
            move || {
                reader.quiesce();
                if let Some(record) = found(&table, &content(1), Direction::Forward) {
                    assert_eq!(table.record(record).unwrap().content(), content(1));
                }
            }
        });
        table.remove(0).unwrap();
        table.reclaim(&readers);
        if table.insert(&content(2), 0).is_err() {
            table.reclaim(&readers);
            let _ = table.insert(&content(2), 0);
        }
        reading.join().unwrap();
    });
}

/// Threads without a reader may come late, but never see a mixture.
#[test]
fn a_record_is_read_whole_or_not_at_all() {
    with_preemptions(3, || {
        let table = Arc::new(table(1));
        let readers = Readers::new();
        table.insert(&content(1), 0).unwrap();
        let reading = thread::spawn({
            let table = Arc::clone(&table);
            move || {
                if let Some((life, read)) = table.record(0).unwrap().read() {
                    assert_eq!(read, content(life.generation()));
                }
            }
        });
        table.remove(0).unwrap();
        table.reclaim(&readers);
        table.insert(&content(2), 0).unwrap();
        reading.join().unwrap();
    });
}

/// Two workers take from and give to the list of unused records.
#[test]
fn every_record_has_one_owner() {
    with_preemptions(3, || {
        let table = Arc::new(table(2));
        let readers = Untracked::new(Readers::new());
        // There is room in the first buckets of any two.
        let mut from = 1;
        let [one, two, three, four, five] = std::array::from_fn(|_| {
            let content = with_buckets(&table, from, [(0, 1), (2, 1)]);
            from = content.hops[0].0 + 1;
            content
        });
        table.insert(&one, 0).unwrap();
        table.insert(&two, 0).unwrap();
        table.remove(1).unwrap();
        table.remove(0).unwrap();
        table.reclaim(&readers);
        let other = thread::spawn({
            let (table, readers) = (Arc::clone(&table), Untracked::clone(&readers));
            move || {
                let mine = table.insert(&three, 0).unwrap();
                table.remove(mine).unwrap();
                table.reclaim(&readers);
                table.insert(&four, 0).unwrap()
            }
        });
        let mine = table.insert(&five, 0).unwrap();
        assert_ne!(mine, other.join().unwrap());
        assert_eq!(found(&table, &five, Direction::Reply), Some(mine));
    });
}

/// A pop that another thread's two pops and a push overtake.
#[test]
fn a_stack_gives_every_number_once() {
    with_preemptions(3, || {
        let shared = Arc::new((Stack::new(), [AtomicU32::new(0), AtomicU32::new(0)]));
        let push = |shared: &Shared, n| {
            shared.0.push(Chain { first: n, last: n }, |n| shared.1.get(n as usize));
        };
        let pop = |shared: &Shared| shared.0.pop(|n| shared.1.get(n as usize));
        push(&shared, 1);
        push(&shared, 0);
        let other = thread::spawn({
            let shared = Arc::clone(&shared);
            move || [pop(&shared), pop(&shared)]
        });
        let (back, kept) = (pop(&shared), pop(&shared));
        if let Some(back) = back {
            push(&shared, back);
        }
        let others = other.join().unwrap();
        assert!(kept.is_none() || !others.contains(&kept), "{kept:?} {others:?}");
        assert!(others[0].is_none() || others[0] != others[1], "{others:?}");
    });
}
