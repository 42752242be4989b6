//! rte_hash against the standard library's.
use std::collections::HashMap;

use dpdk::Mempool;
use dpdk::hash::{self, Hash, HashFull, HashFunction, HashKey};

fn key(n: u32) -> HashKey {
    let mut key = [0; 16];
    key[..4].copy_from_slice(&n.to_be_bytes());
    key
}

/// Fills, removes every third, and compares single and bulk lookups.
macro_rules! check {
    ($model:ident, $look:expr, $add:expr, $del:expr) => {
        for n in 0..300 {
            $model.insert(n, $add(&key(n)).unwrap());
        }
        assert_eq!($add(&key(7)), Ok($model[&7]), "there already: the same place");
        for n in (0..300).step_by(3) {
            assert_eq!($del(&key(n)), $model.remove(&n));
            assert_eq!($del(&key(n)), None);
        }
        // Longer than one bulk, a length that 64 doesn't divide.
        let keys: Vec<HashKey> = (0..333).map(key).collect();
        let references: Vec<&HashKey> = keys.iter().collect();
        let mut places = vec![-7; 333];
        $look.lookup_bulk(&references, &mut places);
        for (n, place) in (0..).zip(places) {
            assert_eq!(u32::try_from(place).ok(), $model.get(&n).copied(), "bulk, key {n}");
            assert_eq!($look.lookup(&key(n)), $model.get(&n).copied(), "key {n}");
        }
    };
}

pub(crate) fn against_a_model(_: &Mempool) {
    for (name, function) in [("crc", HashFunction::Crc), ("jenkins", HashFunction::Jenkins)] {
        let mut model = HashMap::new();
        let mut plain = Hash::new(name, 1024, function).unwrap();
        check!(model, plain, |key| plain.add(key), |key| plain.del(key));

        let mut model = HashMap::new();
        let (mut writer, reader) = hash::locked(&format!("{name} rw"), 1024, function).unwrap();
        check!(model, reader, |key| writer.add(key), |key| writer.del(key));

        let mut model = HashMap::new();
        let name = format!("{name} lf");
        let (mut writer, reader) = hash::lock_free(&name, 1024, function).unwrap();
        check!(model, reader, |key| writer.add(key), |key| writer.del(key));
    }
    let (_taken, _) = hash::lock_free("taken", 64, HashFunction::Crc).unwrap();
    let error = Hash::new("taken", 64, HashFunction::Crc).unwrap_err().to_string();
    assert!(error.starts_with("hash table 'taken' for 64 keys: "), "{error}");
}

/// A removed key's place is given again only when no reader is left.
pub(crate) fn places_wait_for_readers(_: &Mempool) {
    let (mut writer, reader) = hash::lock_free("wait", 64, HashFunction::Crc).unwrap();
    let mut n = 0;
    while writer.add(&key(n)).is_ok() {
        n += 1;
    }
    let gone = writer.del(&key(1)).unwrap();
    assert_eq!(reader.lookup(&key(1)), None);
    assert_eq!((writer.recycle(), writer.add(&key(1))), (None, Err(HashFull)));
    drop(reader);
    assert_eq!(writer.recycle(), Some(1));
    assert_eq!(writer.add(&key(1)), Ok(gone));
    assert_eq!(writer.reader().lookup(&key(1)), Some(gone));
}

pub(crate) fn between_threads(_: &Mempool) {
    let (mut locked, locked_reader) = hash::locked("threads rw", 4096, HashFunction::Crc).unwrap();
    let (mut writer, reader) = hash::lock_free("threads lf", 4096, HashFunction::Crc).unwrap();
    for n in 0..100 {
        locked.add(&key(n)).unwrap();
        writer.add(&key(n)).unwrap();
    }
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for n in 100..3000 {
                locked.add(&key(n)).unwrap();
                writer.add(&key(n)).unwrap();
                if n % 2 == 0 {
                    assert!(locked.del(&key(n)).is_some() && writer.del(&key(n)).is_some());
                }
            }
        });
        for n in 0..20_000 {
            let key = key(n % 100);
            assert!(locked_reader.lookup(&key).is_some() && reader.lookup(&key).is_some(), "{n}");
        }
    });
}
