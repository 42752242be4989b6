//! Records: taken, read, given back.
use std::sync::Arc as Untracked;

use flow::Direction;
use loom::sync::Arc;
use loom::thread;

use super::{content, found, table, with_buckets, with_preemptions};
use crate::readers::Readers;
use crate::stack::{Chain, Stack};
use crate::sync::AtomicU32;

type Shared = (Stack, [AtomicU32; 2]);

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
