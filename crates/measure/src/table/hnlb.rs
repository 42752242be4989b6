//! The connection table as a subject.
use std::hint::black_box;

use arrayvec::ArrayVec;
use conntrack::{ConnTable, Hit, Key, TableConfig, TableError};
use flow::{Direction, HopId};
use service::Binding;
use wire::FlowKey;

use super::keys::{binding, flow};
use super::subject::{BLOCK, Subject, Timed, timed};

/// Next hops of all connections.
const HOPS: [HopId; 2] = [HopId(1), HopId(2)];

/// Connections that are inserted together: the new ones of a burst.
const AT_ONCE: usize = 32;

/// Rounds over the index that it is tidied in, at most.
const ROUNDS: usize = 8;

/// The connection table, for IPv4.
pub(super) struct Hnlb {
    table: ConnTable,
}

impl Hnlb {
    pub(super) fn new(connections: u32) -> Result<Self, TableError> {
        let config = TableConfig {
            connections: connections as usize,
            connections_v6: 0,
            seed: [0x5a; 32],
            timeouts: service::Timeouts::default(),
        };
        Ok(Self { table: ConnTable::new(&config)? })
    }

    #[inline]
    fn add(&self, binding: &Binding) -> u32 {
        u32::from(black_box(self.table.insert(binding, HOPS, 0)).is_err())
    }
}

/// A block of keys, of both directions in turn, in words: as packed as those
/// of rte_hash.
fn words(numbers: &[u32]) -> Vec<Key<1>> {
    let directions = Direction::BOTH.into_iter().cycle();
    let flows = numbers.iter().zip(directions).filter_map(|(n, direction)| flow(*n, direction));
    let words = flows.filter_map(|flow| match flow {
        FlowKey::V4(flow) => Some(Key::from(&flow)),
        FlowKey::V6(_) => None,
    });
    words.collect()
}

/// The keys of both directions, in words.
fn keys(binding: &Binding) -> Option<[Key<1>; 2]> {
    let key = |direction| match binding.key(direction)? {
        FlowKey::V4(flow) => Some(Key::from(&flow)),
        FlowKey::V6(_) => None,
    };
    Some([key(Direction::Forward)?, key(Direction::Reply)?])
}

fn missing(hit: Option<Hit>) -> u32 {
    u32::from(black_box(hit).is_none())
}

impl Subject for Hnlb {
    fn lookup(&self, numbers: &[u32]) -> Timed {
        let keys = words(numbers);
        timed(|| keys.iter().map(|key| missing(self.table.lookup(key))).sum())
    }

    fn lookup_bulk(&self, numbers: &[u32]) -> Timed {
        let keys = words(numbers);
        let mut hits = [None; BLOCK];
        let done = timed(|| {
            self.table.lookup_burst(black_box(&keys), &mut hits);
            0
        });
        let failed = hits.iter().zip(&keys).map(|(hit, _)| missing(*hit)).sum();
        Timed { failed, ..done }
    }

    fn insert(&self, numbers: &[u32], _alone: bool) -> Timed {
        let bindings: Vec<Binding> = numbers.iter().map(|n| binding(*n)).collect();
        timed(|| bindings.iter().map(|binding| self.add(binding)).sum())
    }

    /// As the pipeline inserts the new connections of a burst.
    fn insert_bulk(&self, numbers: &[u32], _alone: bool) -> Timed {
        let bindings = numbers.iter().map(|n| binding(*n));
        let new: Vec<_> = bindings.filter_map(|binding| Some((keys(&binding)?, binding))).collect();
        let mut prepared = ArrayVec::<_, AT_ONCE>::new();
        let done = timed(|| {
            let mut refused = 0;
            for new in black_box(&new).chunks(AT_ONCE) {
                prepared.extend(new.iter().map(|(keys, binding)| {
                    let owner = (binding.service, binding.backend, binding.forwarding);
                    self.table.prepare_insert(*keys, owner, HOPS)
                }));
                prepared.iter().for_each(|prepared| self.table.prefetch_further(prepared));
                for prepared in prepared.drain(..) {
                    let inserted = self.table.insert_prepared(&prepared, 0);
                    refused += u32::from(black_box(inserted).is_err());
                }
            }
            refused
        });
        Timed { failed: done.failed + (numbers.len() - new.len()) as u32, ..done }
    }

    fn remove(&self, numbers: &[u32]) {
        let keys = numbers.iter().filter_map(|n| flow(*n, Direction::Forward));
        for hit in keys.filter_map(|key| self.table.lookup(&key)) {
            self.table.remove(hit.conn);
        }
    }

    fn settle(&self) {
        self.table.reclaim();
    }

    fn rest(&self) {
        let rounds = (0..ROUNDS).map(|_| self.table.tidy(usize::MAX));
        // A key that leaves a bucket makes room for others.
        let _ = rounds.take_while(|moved| *moved > 0).count();
    }

    fn shares_changes(&self) -> bool {
        true
    }
}
