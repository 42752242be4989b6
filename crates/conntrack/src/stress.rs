//! Real threads on one nearly full table, each with a reference of its own.
//!
//! Every connection number belongs to one thread, which therefore knows
//! whether it is in the table: losing it, doubling it, tearing it or missing it
//! for a moment fails the test. A few more numbers are contested by all.
#![allow(clippy::unwrap_used, clippy::panic)]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicUsize, Ordering};
use std::thread;

use flow::{BackendId, Direction, HopId, ServiceId};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use service::Forwarding;
use wire::Transport;

use crate::bucket::{Reference, SLOTS};
use crate::family::FamilyTable;
use crate::insert::Refusal;
use crate::key::{Deltas, Key};
use crate::readers::{Reader, Readers};
use crate::record::Content;

const THREADS: u32 = 4;
const BUCKETS: usize = 256;
/// Numbers of one thread: all threads' connections together would need twice
/// the slots there are.
const OWN: u32 = (BUCKETS * SLOTS) as u32 / THREADS;
/// Plenty, so that not records but slots are scarce: most wait for the readers.
const RECORDS: usize = 1 << 16;
const CONTESTED: u32 = 16;
const STEPS: usize = if cfg!(miri) { 60 } else { 250_000 };
/// A keeper that has done nothing by then never will.
const MOST_STEPS: usize = 20 * STEPS;
/// More than so many keys have to be moved, by insertions and by the keeper.
const MOVES: usize = 1000;

type Table = FamilyTable<1>;

/// Connection number `n`; every word tells `n`.
fn content(n: u32) -> Content<1> {
    let key = |net: u64| Key {
        addresses: [net << 56 | u64::from(n) << 32 | u64::from(n)],
        ports: n << 16 | n & 0xffff,
        proto: Transport::Udp,
    };
    Content {
        keys: [key(10), key(172)],
        deltas: [Deltas { net: n as u16, transport: !n as u16 }; 2],
        hops: [HopId(n), HopId(!n)],
        service: ServiceId(n as u16),
        backend: BackendId(!n as u16),
        forwarding: Forwarding::Rewrite,
    }
}

/// A worker's lookup: a quick look, and a second one if that is not sure.
fn lookup(table: &Table, key: &Key<1>) -> Option<Reference> {
    table.look::<true>(key).unwrap_or_else(|| table.look_surely(key))
}

struct Worker {
    table: Arc<Table>,
    reader: Reader,
    first: u32,
    /// The record of each own number.
    records: Vec<Option<u32>>,
    random: SmallRng,
    refused: usize,
}

impl Worker {
    /// At least so many steps, and more until `brought_home` is enough: how soon
    /// the keeper gets a core is up to the machine.
    fn run(mut self, present: &[AtomicI64], brought_home: &AtomicUsize) -> (usize, usize) {
        let enough = || cfg!(miri) || brought_home.load(Ordering::Relaxed) > MOVES;
        for step in 0..MOST_STEPS {
            if step >= STEPS && enough() {
                break;
            }
            if step % 32 == 0 {
                self.reader.quiesce();
            }
            if step % 512 == 0 {
                // Grace periods need everybody's turn, and there are few cores.
                thread::yield_now();
            }
            match self.random.random_range(0..16) {
                0..4 => self.change_own(),
                4..14 => self.look_up_own(),
                14 => self.look_up_other(),
                _ => self.contest(present),
            }
        }
        (self.records.iter().flatten().count(), self.refused)
    }

    fn change_own(&mut self) {
        let own = self.random.random_range(0..OWN);
        let content = content(self.first + own);
        let record = &mut self.records[own as usize];
        if let Some(number) = record.take() {
            assert_eq!(self.table.remove(number), Some(content), "removed by another");
            assert_eq!(self.table.remove(number).filter(|again| *again == content), None);
        } else {
            *record = match self.table.insert(&content, 0) {
                Ok(number) => Some(number),
                Err(Refusal::Full) => {
                    self.refused += 1;
                    None
                }
                Err(refusal) => panic!("{refusal:?}: a removed key is still there"),
            };
        }
    }

    fn look_up_own(&mut self) {
        let own = self.random.random_range(0..OWN);
        let content = content(self.first + own);
        for direction in Direction::BOTH {
            let key = &content.keys[direction.index()];
            let found = lookup(&self.table, key);
            let burst = self.table.look::<false>(key);
            assert!(burst.is_none_or(|burst| burst == found), "number {own}: {burst:?}");
            let found = found.map(|found| (found.record(), found.direction()));
            let expected = self.records[own as usize].map(|number| (number, direction));
            assert_eq!(found, expected, "number {own}");
        }
        if let Some(number) = self.records[own as usize] {
            let record = self.table.record(number).unwrap();
            assert_eq!(record.content(), content);
        }
    }

    /// Another thread's: it may be there or not, but what is found is whole,
    /// and stays so until this thread quiesces.
    fn look_up_other(&mut self) {
        let content = content(self.random.random_range(0..THREADS * OWN + CONTESTED));
        if let Some(found) = lookup(&self.table, &content.keys[0]) {
            assert_eq!(self.table.record(found.record()).unwrap().content(), content);
        }
    }

    fn contest(&mut self, present: &[AtomicI64]) {
        let which = self.random.random_range(0..CONTESTED);
        let content = content(THREADS * OWN + which);
        let count = &present[which as usize];
        match self.table.insert(&content, 0) {
            Ok(_) => {
                count.fetch_add(1, Ordering::Relaxed);
            }
            Err(Refusal::Exists(found)) => {
                if self.table.remove(found.record()).is_some() {
                    count.fetch_sub(1, Ordering::Relaxed);
                }
            }
            Err(Refusal::Full) => {}
            Err(refusal) => panic!("{refusal:?}"),
        }
    }
}

/// Counts the keys that it brings home.
fn keeper(table: &Table, readers: &Readers, done: &AtomicBool, brought_home: &AtomicUsize) {
    while !done.load(Ordering::Acquire) {
        table.reclaim(readers);
        let brought = (0..BUCKETS).map(|bucket| table.index().bring_home(bucket)).sum();
        brought_home.fetch_add(brought, Ordering::Relaxed);
        for number in 0..table.used() {
            if let Some((_, read)) = table.record(number).and_then(|record| record.read()) {
                assert_eq!(read, content(read.hops[0].0), "a torn record");
            }
        }
        thread::yield_now();
    }
}

#[test]
fn nothing_is_lost_doubled_torn_or_missed() {
    let table = Arc::new(Table::new(RECORDS, BUCKETS, &[5; 32]).unwrap());
    let readers = Arc::new(Readers::new());
    let present: Vec<_> = (0..CONTESTED).map(|_| AtomicI64::new(0)).collect();
    let (done, brought_home) = (AtomicBool::new(false), AtomicUsize::new(0));
    let workers: Vec<_> = (0..THREADS)
        .map(|number| Worker {
            table: Arc::clone(&table),
            reader: readers.register().unwrap(),
            first: number * OWN,
            records: vec![None; OWN as usize],
            random: SmallRng::seed_from_u64(number.into()),
            refused: 0,
        })
        .collect();
    let (owned, refused) = thread::scope(|scope| {
        let keeper = scope.spawn(|| keeper(&table, &readers, &done, &brought_home));
        let run = |worker: Worker| scope.spawn(|| worker.run(&present, &brought_home));
        let threads: Vec<_> = workers.into_iter().map(run).collect();
        let results: Vec<_> = threads.into_iter().map(thread::ScopedJoinHandle::join).collect();
        done.store(true, Ordering::Release);
        keeper.join().unwrap();
        let brought_home = brought_home.load(Ordering::Relaxed);
        assert!(cfg!(miri) || brought_home > MOVES, "the keeper was meant to move keys");
        results
            .into_iter()
            .map(Result::unwrap)
            .fold((0, 0), |all, own| (all.0 + own.0, all.1 + own.1))
    });
    let mut contested = 0;
    for (which, count) in (0..).zip(&present) {
        let found = table.look_surely(&content(THREADS * OWN + which).keys[1]).is_some();
        assert_eq!(count.load(Ordering::Relaxed), i64::from(found), "contested number {which}");
        contested += usize::from(found);
    }
    let stats = table.stats();
    println!("{stats:?}, refused {refused}");
    assert_eq!(stats.len, owned + contested);
    assert!(
        cfg!(miri) || stats.moves > MOVES as u64,
        "the table was not full enough to test moves"
    );
}
