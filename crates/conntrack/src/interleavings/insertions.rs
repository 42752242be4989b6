//! Insertions and removals beside each other, lookups and moves.
use flow::Direction;
use loom::sync::Arc;
use loom::thread;
use wire::TcpFlags;

use super::{Table, content, found, segment, shift, table, with_buckets, with_preemptions};
use crate::bucket::Reference;
use crate::insert::Refusal;
use crate::path::Room;
use crate::record::Content;
use crate::state::ConnState;

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
            move || table.count(0, Direction::Forward, Some(segment(TcpFlags::SYN)), 1)
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
            table.count(0, direction, Some(segment(flags)), 1);
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
