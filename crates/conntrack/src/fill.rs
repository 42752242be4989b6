//! Tests of how the memory is filled: load, evenness, cost per connection.
#![allow(clippy::unwrap_used, clippy::panic)]

use service::{BackendId, Direction, Forwarding, HopId, ServiceId};
use wire::Transport;

use crate::bucket::SLOTS;
use crate::config::buckets;
use crate::family::{FamilyTable, Refusal};
use crate::hash::KeyedHash;
use crate::key::{Deltas, Family, Key, Key4, Key6};
use crate::record::{Content, Record};

/// A client of consecutive ports, as a flood has them.
fn key<const K: usize>(n: u64, net: u64) -> Key<K> {
    let mut addresses = [0; K];
    addresses[0] = net << 56 | (n >> 16) << 32 | 0xc633_6401;
    Key { addresses, ports: (n as u32) << 16 | 443, proto: Transport::Tcp }
}

fn content<const K: usize>(n: u64) -> Content<K> {
    Content {
        keys: [key(n, 10), key(n, 172)],
        deltas: [Deltas::default(); 2],
        hops: [HopId(0); 2],
        service: ServiceId(0),
        backend: BackendId(0),
        forwarding: Forwarding::Rewrite,
    }
}

/// The load of the index at the first refusal, and moves per insertion.
fn fill<const K: usize>(buckets: usize, seed: u8) -> (f64, f64)
where
    Key<K>: Family,
{
    let slots = buckets * SLOTS;
    let table = FamilyTable::<K>::new(slots, buckets, &[seed; 32]).unwrap();
    let mut n = 0;
    while table.insert(&content(n), 0) != Err(Refusal::Full) {
        n += 1;
    }
    for n in 0..n {
        for key in &content(n).keys {
            assert_eq!(table.lookup(key).map(|found| u64::from(found.record())), Some(n));
        }
    }
    (2.0 * n as f64 / slots as f64, table.stats().moves as f64 / n as f64)
}

#[test]
fn the_index_fills_to_over_95_percent() {
    let sizes: &[usize] = if cfg!(miri) { &[32] } else { &[64, 1000, 20_000] };
    for &buckets in sizes {
        for seed in 0..3 {
            for (load, moves) in [fill::<1>(buckets, seed), fill::<4>(buckets, seed)] {
                println!("{buckets} buckets: load {load:.4}, {moves:.2} moves per connection");
                assert!(load > 0.95, "{buckets} buckets, seed {seed}: {load}");
                assert!(load <= 1.0);
            }
        }
    }
}

#[test]
fn every_configured_connection_fits() {
    let sizes: &[usize] = if cfg!(miri) { &[1, 9] } else { &[1, 2, 3, 9, 20, 50, 1000, 65_536] };
    for &size in sizes {
        for seed in 0..4 {
            let table = FamilyTable::<1>::new(size, buckets(size), &[seed; 32]).unwrap();
            for n in 0..size as u64 {
                assert_eq!(table.insert(&content(n), 0), Ok(n as u32), "{size}, seed {seed}");
            }
            assert_eq!(table.insert(&content(size as u64), 0), Err(Refusal::Full));
        }
    }
}

#[test]
fn a_connection_takes_bounded_memory() {
    assert_eq!((size_of::<Record<1>>(), size_of::<Record<4>>()), (64, 128));
    let sizes: &[usize] = if cfg!(miri) { &[1 << 10] } else { &[1 << 10, 8000, 65_537, 1 << 20] };
    for &size in sizes {
        let in_use = size as f64 * 0.9;
        let bytes = |all: usize| all as f64 / in_use;
        let v4 = FamilyTable::<1>::new(size, buckets(size), &[0; 32]).unwrap();
        let v6 = FamilyTable::<4>::new(size, buckets(size), &[0; 32]).unwrap();
        let (v4, v6) = (bytes(v4.stats().memory_bytes), bytes(v6.stats().memory_bytes));
        println!("{size}: {v4:.1} bytes per IPv4 and {v6:.1} per IPv6 connection");
        assert!(v4 <= 128.0 && v6 <= 192.0, "{size}: {v4} {v6}");
    }
}

/// Tags hide it in the table: a record compares every bit of a key itself.
#[test]
fn a_record_has_its_own_keys_only() {
    let table = FamilyTable::<4>::new(1, 1, &[0; 32]).unwrap();
    let content = content::<4>(77);
    let number = table.insert(&content, 0).unwrap();
    let record = table.record(number).unwrap();
    for (direction, own) in Direction::BOTH.into_iter().zip(content.keys) {
        assert!(record.has(direction, &own));
        assert!(!record.has(direction, &Key { proto: Transport::Udp, ..own }));
        for bit in 0..32 {
            assert!(!record.has(direction, &Key { ports: own.ports ^ 1 << bit, ..own }));
        }
        for bit in 0..256 {
            let mut other = own;
            other.addresses[bit / 64] ^= 1 << (bit % 64);
            assert!(!record.has(direction, &other));
        }
    }
    assert!(!record.has(Direction::Reply, &content.keys[0]));
}

/// The sum of squares over the expectation, minus its own expectation, in
/// standard deviations.
fn unevenness(counts: &[u64], total: u64) -> f64 {
    let cells = counts.len() as f64;
    let mean = total as f64 / cells;
    let chi = counts.iter().map(|&n| (n as f64 - mean).powi(2) / mean).sum::<f64>();
    (chi - (cells - 1.0)) / (2.0 * (cells - 1.0)).sqrt()
}

fn spread<const K: usize>(seed: u8)
where
    Key<K>: Family,
{
    let (cells, total) = (256, if cfg!(miri) { 2048 } else { 1 << 16 });
    let hash = KeyedHash::<K>::new(&[seed; 32]);
    // Any 8 bits: of the bucket's half, of the tag's.
    for shift in (0..=56).step_by(8) {
        let mut counts = vec![0; cells];
        for n in 0..total {
            counts[(hash.hash(&key(n, 10)) >> shift) as usize & (cells - 1)] += 1;
        }
        let sigmas = unevenness(&counts, total);
        assert!(sigmas < 6.0, "bits {shift}: {sigmas} standard deviations too uneven");
    }
}

#[test]
fn consecutive_keys_spread_evenly() {
    for seed in 0..8 {
        spread::<1>(seed);
        spread::<4>(seed);
    }
}

#[test]
fn every_part_of_the_key_and_the_seed_counts() {
    let base: Key6 = Key { addresses: [1, 2, 3, 4], ports: 5 << 16 | 6, proto: Transport::Tcp };
    let mut keys = vec![base, Key { proto: Transport::Udp, ..base }];
    for bit in 0..32 {
        keys.push(Key { ports: base.ports ^ 1 << bit, ..base });
    }
    for bit in 0..256 {
        let mut other = base;
        other.addresses[bit / 64] ^= 1 << (bit % 64);
        keys.push(other);
    }
    let hashes = |seed| {
        let hash = KeyedHash::<4>::new(&[seed; 32]);
        keys.iter().map(|key| hash.hash(key)).collect::<Vec<_>>()
    };
    let mut all = [hashes(1), hashes(2)].concat();
    all.sort_unstable();
    all.dedup();
    assert_eq!(all.len(), 2 * keys.len());
    let v4: Key4 = key(1, 10);
    let one = KeyedHash::<1>::new(&[1; 32]).hash(&v4);
    assert_ne!(one, KeyedHash::<1>::new(&[2; 32]).hash(&v4));
    assert_ne!(one, KeyedHash::<1>::new(&[1; 32]).hash(&Key { proto: Transport::Udp, ..v4 }));
}

#[test]
fn seeds_choose_layouts() {
    let layout = |seed| {
        let table = FamilyTable::<1>::new(100, 1000, &[seed; 32]).unwrap();
        (0..100).map(|n| table.probe(&key(n, 10)).first()).collect::<Vec<_>>()
    };
    assert_eq!(layout(1), layout(1));
    let same = layout(1).iter().zip(layout(2)).filter(|(one, two)| *one == two).count();
    assert!(same < 5, "{same} of 100 keys stay where they are with another seed");
}

#[test]
fn the_other_bucket_of_the_other_bucket_is_the_first() {
    for buckets in [1, 2, 3, 7, 1000] {
        let table = FamilyTable::<1>::new(1, buckets, &[9; 32]).unwrap();
        for n in 0..500 {
            let probe = table.probe(&key(n, 10));
            assert!(probe.first() < buckets && probe.second() < buckets);
            assert_eq!(table.index().other(probe.second(), probe.tag), probe.first());
        }
    }
}
