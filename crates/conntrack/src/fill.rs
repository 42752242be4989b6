//! Tests of how the memory is filled: load, evenness, cost per connection.
#![allow(clippy::unwrap_used, clippy::panic)]

use flow::{BackendId, Direction, HopId, ServiceId};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use service::Forwarding;
use wire::Transport;

use crate::bucket::{Bucket, Entry, Reference, SLOTS, Slot, Sought};
use crate::config::buckets;
use crate::family::FamilyTable;
use crate::insert::Refusal;
use crate::key::{Deltas, Family, Key, Key4, Key6};
use crate::memory::vector::{Width, by_width};
use crate::readers::Readers;
use crate::record::{Content, Record};
use crate::sync::AtomicU64;

/// After many insertions, moves and removals each bucket knows whether any of
/// its keys are in another: too many would be slow, too few wrong.
#[test]
fn buckets_know_what_has_spilled() {
    let buckets = if cfg!(miri) { 16 } else { 300 };
    let capacity = buckets * SLOTS;
    let table = FamilyTable::<1>::new(capacity, buckets, &[1; 32]).unwrap();
    let (mut random, mut inside) = (SmallRng::seed_from_u64(1), Vec::new());
    let readers = Readers::new();
    for n in 0..capacity as u64 * 8 {
        match table.insert(&content(n), 0) {
            Ok(number) => inside.push(number),
            Err(refusal) => assert_eq!(refusal, Refusal::Full),
        }
        if inside.len() > capacity * 2 / 5 {
            let number = inside.swap_remove(random.random_range(0..inside.len()));
            assert!(table.remove(number).is_some());
            table.reclaim(&readers);
        }
        if n % 64 == 0 {
            check_spilled(&table, buckets);
        }
    }
    assert!(table.stats().moves > 100 || cfg!(miri));
}

fn check_spilled(table: &FamilyTable<1>, buckets: usize) {
    let mut spilled = vec![0; buckets];
    for bucket in 0..buckets {
        for slot in 0..SLOTS {
            let entry = table.index().bucket(bucket).load(slot);
            let home = table.index().probe(entry.sought()).first();
            spilled[home] += u32::from(!entry.is_empty() && home != bucket);
        }
    }
    for (bucket, spilled) in spilled.into_iter().enumerate() {
        let said = table.index().bucket(bucket).has_spilled();
        assert_eq!(said, spilled > 0, "bucket {bucket} of {spilled}");
    }
}

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
            assert_eq!(table.look_surely(key).map(|found| u64::from(found.record())), Some(n));
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
    let table = FamilyTable::<K>::new(1, cells, &[seed; 32]).unwrap();
    let mut counts = [vec![0; cells], vec![0; cells], vec![0; cells]];
    for n in 0..total {
        let probe = table.probe(&key(n, 10));
        counts[0][probe.first()] += 1;
        counts[1][probe.second()] += 1;
        // Also as pairs: keys of one first bucket have all kinds of second ones.
        counts[2][(probe.first() & 15) << 4 | probe.second() & 15] += 1;
    }
    for (what, counts) in ["first", "second", "pairs"].into_iter().zip(counts) {
        let sigmas = unevenness(&counts, total);
        assert!(sigmas < 6.0, "{what}, seed {seed}: {sigmas} standard deviations too uneven");
    }
}

#[test]
fn consecutive_keys_spread_evenly() {
    for seed in 0..if cfg!(miri) { 4 } else { 32 } {
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
        let table = FamilyTable::<4>::new(1, MANY, &[seed; 32]).unwrap();
        keys.iter().map(|key| buckets_of(&table, key)).collect::<Vec<_>>()
    };
    let mut all = [hashes(1), hashes(2)].concat();
    all.sort_unstable();
    all.dedup();
    assert_eq!(all.len(), 2 * keys.len());
    let v4: Key4 = key(1, 10);
    let table = |seed| FamilyTable::<1>::new(1, MANY, &[seed; 32]).unwrap();
    let one = buckets_of(&table(1), &v4);
    assert_ne!(one, buckets_of(&table(2), &v4));
    assert_ne!(one, buckets_of(&table(1), &Key { proto: Transport::Udp, ..v4 }));
}

/// So many buckets that no two of some hundred keys have the same two by chance;
/// their memory is never touched.
const MANY: usize = if cfg!(miri) { 1 << 12 } else { 1 << 20 };

fn buckets_of<const K: usize>(table: &FamilyTable<K>, key: &Key<K>) -> (usize, usize)
where
    Key<K>: Family,
{
    let probe = table.probe(key);
    (probe.first(), probe.second())
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
            let entry = Entry::new(probe.sought, Reference::new(n as u32, Direction::Reply));
            assert!(probe.first() < buckets && probe.second() < buckets);
            assert_eq!(entry.sought(), probe.sought);
            assert_eq!(table.index().other(probe.second(), entry), probe.first());
            assert_eq!(table.index().other(probe.first(), entry), probe.second());
        }
    }
}

/// An index compares some bits of a word and not others.
#[test]
fn a_bucket_compares_the_whole_key_and_nothing_else() {
    let (buckets, sought) = ([(), ()].map(|()| bucket()), Sought::new(7, 9, Transport::Udp));
    for slot in 0..2 * SLOTS {
        let bucket = &buckets[slot / SLOTS];
        let reference = Reference::new(0x2aa_aaaa, Direction::Reply);
        bucket.lock();
        bucket.fill(slot % SLOTS, Entry::new(sought, reference));
        let find = |sought| match buckets[0].either(&buckets[1], sought) {
            (reference, true, _) => Some(Some(reference)),
            (_, _, none) => none.then_some(None),
        };
        assert_eq!(find(sought), Some(Some(reference)), "while the bucket is locked");
        assert_eq!(bucket.own(sought), (reference, true));
        for width in Width::all() {
            let own = |sought| by_width!(width, |by| bucket.own_by(by, &sought));
            assert_eq!(own(sought), (reference, true), "{width:?}");
            for bit in 0..64 {
                let addresses = sought.addresses ^ 1 << bit;
                assert!(!own(Sought { addresses, ..sought }).1, "{width:?}");
            }
        }
        bucket.unlock();
        assert_eq!(find(sought), Some(Some(reference)));
        for bit in 0..64 {
            let addresses = sought.addresses ^ 1 << bit;
            assert_eq!(find(Sought { addresses, ..sought }), Some(None));
        }
        for bit in 0..32 {
            assert_eq!(find(Sought::new(7, 9 ^ 1 << bit, Transport::Udp)), Some(None));
        }
        // Only a hint there, so it is not sure.
        assert_eq!(find(Sought::new(7, 9, Transport::Tcp)), None);
        bucket.lock();
        bucket.clear(slot % SLOTS);
        bucket.unlock();
        assert_eq!(find(sought), Some(None));
        assert!(!bucket.own(sought).1 && bucket.lacks(sought));
    }
}

fn bucket() -> Bucket {
    let slot = |_| Slot { addresses: AtomicU64::new(0), rest: AtomicU64::new(0) };
    Bucket { slots: std::array::from_fn(slot) }
}
