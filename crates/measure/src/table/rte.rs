//! DPDK's hash tables as subjects.
use std::hint::black_box;
use std::sync::{Mutex, MutexGuard, PoisonError, RwLock};

use dpdk::hash::{self, Hash, HashError, HashFull, HashFunction, HashKey, HashReader, HashWriter};

use super::keys::hash_key;
use super::subject::{BLOCK, Subject, Timed, timed};

/// DPDK's default on x86-64, and the faster one.
const FUNCTION: HashFunction = HashFunction::Crc;

fn keys(numbers: &[u32]) -> Vec<HashKey> {
    numbers.iter().map(|n| hash_key(*n)).collect()
}

fn lookups(numbers: &[u32], lookup: impl Fn(&HashKey) -> Option<u32>) -> Timed {
    let keys = keys(numbers);
    timed(|| keys.iter().map(|key| u32::from(black_box(lookup(key)).is_none())).sum())
}

fn bulk(numbers: &[u32], lookup: impl Fn(&[&HashKey], &mut [i32])) -> Timed {
    let keys = keys(numbers);
    let keys: Vec<&HashKey> = keys.iter().collect();
    let mut places = [-1; BLOCK];
    let done = timed(|| {
        lookup(black_box(&keys), &mut places);
        0
    });
    let failed = places.iter().zip(&keys).filter(|(place, _)| **place < 0).count();
    Timed { failed: failed as u32, ..done }
}

fn inserts(numbers: &[u32], mut add: impl FnMut(&HashKey) -> Result<u32, HashFull>) -> Timed {
    let keys = keys(numbers);
    timed(|| keys.iter().map(|key| u32::from(black_box(add(key)).is_err())).sum())
}

/// Without flags. The lock is Rust's condition for handing out `&mut`; it is
/// taken outside of the measured time.
pub(super) struct Plain(RwLock<Hash>);

impl Plain {
    pub(super) fn new(name: &str, entries: u32) -> Result<Self, HashError> {
        Ok(Self(RwLock::new(Hash::new(name, entries, FUNCTION)?)))
    }
}

impl Subject for Plain {
    fn lookup(&self, numbers: &[u32]) -> Timed {
        let hash = self.0.read().unwrap_or_else(PoisonError::into_inner);
        lookups(numbers, |key| hash.lookup(key))
    }

    fn lookup_bulk(&self, numbers: &[u32]) -> Timed {
        let hash = self.0.read().unwrap_or_else(PoisonError::into_inner);
        bulk(numbers, |keys, places| hash.lookup_bulk(keys, places))
    }

    fn insert(&self, numbers: &[u32], _alone: bool) -> Timed {
        let mut hash = self.0.write().unwrap_or_else(PoisonError::into_inner);
        inserts(numbers, |key| hash.add(key))
    }

    fn remove(&self, numbers: &[u32]) {
        let mut hash = self.0.write().unwrap_or_else(PoisonError::into_inner);
        for key in keys(numbers) {
            hash.del(&key);
        }
    }

    fn settle(&self) {}

    fn shares_changes(&self) -> bool {
        false
    }
}

/// With `RW_CONCURRENCY` or `RW_CONCURRENCY_LF`. Both have one writer: where
/// several threads write, each change takes a lock, in the measured time.
pub(super) struct Concurrent {
    writer: Mutex<HashWriter>,
    /// Always there, but for a moment in `settle`. Taken outside of the measured
    /// time.
    reader: RwLock<Option<HashReader>>,
}

impl Concurrent {
    /// With a lock inside.
    pub(super) fn locked(name: &str, entries: u32) -> Result<Self, HashError> {
        Ok(Self::from(hash::locked(name, entries, FUNCTION)?))
    }

    /// Without.
    pub(super) fn lock_free(name: &str, entries: u32) -> Result<Self, HashError> {
        Ok(Self::from(hash::lock_free(name, entries, FUNCTION)?))
    }

    fn writer(&self) -> MutexGuard<'_, HashWriter> {
        self.writer.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl From<(HashWriter, HashReader)> for Concurrent {
    fn from((writer, reader): (HashWriter, HashReader)) -> Self {
        Self { writer: Mutex::new(writer), reader: RwLock::new(Some(reader)) }
    }
}

impl Subject for Concurrent {
    fn lookup(&self, numbers: &[u32]) -> Timed {
        let reader = self.reader.read().unwrap_or_else(PoisonError::into_inner);
        let Some(reader) = &*reader else { return Timed::default() };
        lookups(numbers, |key| reader.lookup(key))
    }

    fn lookup_bulk(&self, numbers: &[u32]) -> Timed {
        let reader = self.reader.read().unwrap_or_else(PoisonError::into_inner);
        let Some(reader) = &*reader else { return Timed::default() };
        bulk(numbers, |keys, places| reader.lookup_bulk(keys, places))
    }

    fn insert(&self, numbers: &[u32], alone: bool) -> Timed {
        if alone {
            let mut writer = self.writer();
            return inserts(numbers, |key| writer.add(key));
        }
        inserts(numbers, |key| self.writer().add(key))
    }

    fn remove(&self, numbers: &[u32]) {
        for key in keys(numbers) {
            self.writer().del(&key);
        }
    }

    fn settle(&self) {
        let mut reader = self.reader.write().unwrap_or_else(PoisonError::into_inner);
        // Places come back when there is no reader.
        *reader = None;
        let mut writer = self.writer();
        writer.recycle();
        *reader = Some(writer.reader());
    }

    fn shares_changes(&self) -> bool {
        true
    }
}
