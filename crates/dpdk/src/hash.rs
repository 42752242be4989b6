//! DPDK's own hash table, rte_hash, for keys of 16 bytes: what the connection
//! table is measured against.
//!
//! rte_hash states in prose who may call what at a time; here three types do:
//! - [`struct@Hash`]: changes need `&mut`, any number of threads may look up between;
//! - [`locked`] (`RW_CONCURRENCY`): a reader-writer lock inside, one
//!   [`HashWriter`], any number of [`HashReader`]s;
//! - [`lock_free`] (`RW_CONCURRENCY_LF`): the same without the lock; the place
//!   of a removed key is used again only after a moment without readers
//!   ([`HashWriter::recycle`]).
//!
//! Also with the lock there is one writer only: DPDK 22.11 takes the place of a
//! new key from a ring for a single consumer before it takes the lock, so that
//! two writers lose places. `MULTI_WRITER_ADD`, which would allow them, is not
//! offered: a thread that is not registered with EAL would write outside of the
//! table's per-lcore caches.
use std::ffi::{CString, c_void};
use std::ptr::NonNull;
use std::sync::Arc;

use dpdk_sys as sys;

use crate::live::{Live, NotRunning};
use crate::{errno, log};

/// A key: an IPv4 5-tuple of 13 bytes, padded.
pub type HashKey = [u8; 16];

/// Most keys of one bulk lookup; longer ones are done in pieces.
pub const HASH_BULK: usize = sys::RTE_HASH_LOOKUP_BULK_MAX as usize;

/// The functions that hash keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HashFunction {
    /// CRC-32C, by the processor's instruction: DPDK's default on x86-64.
    Crc,
    /// Bob Jenkins' hash.
    Jenkins,
}

/// A hash table could not be made.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HashError {
    /// EAL does not run.
    #[error(transparent)]
    NotRunning(#[from] NotRunning),
    /// DPDK refused.
    #[error("hash table '{name}' for {entries} keys: {reason}")]
    Create {
        /// The table.
        name: String,
        /// Keys asked for.
        entries: u32,
        /// DPDK's reason.
        reason: String,
    },
}

/// A key could not be added.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the hash table has no room for the key")]
pub struct HashFull;

/// The table itself; freed when dropped.
#[derive(Debug)]
struct Raw {
    hash: NonNull<sys::rte_hash>,
    _live: Live,
}

// SAFETY: an rte_hash belongs to no thread; who may do what at a time is kept
// by the types below.
unsafe impl Send for Raw {}
// SAFETY: as above; the methods that change the table are `unsafe`.
unsafe impl Sync for Raw {}

impl Raw {
    fn new(
        name: &str,
        entries: u32,
        function: HashFunction,
        flags: u32,
    ) -> Result<Self, HashError> {
        let live = Live::new()?;
        let fail = |reason| HashError::Create { name: name.to_owned(), entries, reason };
        let text = CString::new(name).map_err(|_| fail("the name has a NUL byte".to_owned()))?;
        let made = log::explained(|| {
            // SAFETY: only gives out the address of a function.
            let hash_func = unsafe { sys::hnlb_hash_function(function == HashFunction::Crc) };
            let parameters = sys::rte_hash_parameters {
                name: text.as_ptr(),
                entries,
                reserved: 0,
                key_len: size_of::<HashKey>() as u32,
                hash_func,
                hash_func_init_val: 0,
                socket_id: -1,
                extra_flag: flags as u8,
            };
            // SAFETY: EAL runs (`live`); the name, which is copied, and the
            // parameters live during the call.
            let hash = unsafe { sys::rte_hash_create(&raw const parameters) };
            NonNull::new(hash).ok_or_else(errno::last)
        });
        match made {
            Ok(hash) => Ok(Self { hash, _live: live }),
            Err((code, log)) => Err(fail(log::with_log(errno::text(code), &log))),
        }
    }

    /// # Safety
    /// As the table's flags ask for it: nobody else uses the table (none), or
    /// nobody else changes it (`RW_CONCURRENCY` and `_LF`).
    #[inline]
    unsafe fn add(&self, key: &HashKey) -> Result<u32, HashFull> {
        // SAFETY: the key is read and copied only; for the rest see above.
        let place = unsafe { sys::rte_hash_add_key(self.hash.as_ptr(), key.as_ptr().cast()) };
        u32::try_from(place).map_err(|_| HashFull)
    }

    /// # Safety
    /// As for `add`.
    #[inline]
    unsafe fn del(&self, key: &HashKey) -> Option<u32> {
        // SAFETY: the key is read only; for the rest see above.
        let place = unsafe { sys::rte_hash_del_key(self.hash.as_ptr(), key.as_ptr().cast()) };
        u32::try_from(place).ok()
    }

    /// Sound by `&self`: the plain table has no writer meanwhile, the others
    /// are made for it.
    #[inline]
    fn lookup(&self, key: &HashKey) -> Option<u32> {
        // SAFETY: the key is read only; see above.
        let place = unsafe { sys::rte_hash_lookup(self.hash.as_ptr(), key.as_ptr().cast()) };
        u32::try_from(place).ok()
    }

    #[inline]
    fn lookup_bulk(&self, keys: &[&HashKey], places: &mut [i32]) {
        for (keys, places) in keys.chunks(HASH_BULK).zip(places.chunks_mut(HASH_BULK)) {
            let n = keys.len().min(places.len());
            // A reference to a key is the pointer that DPDK wants.
            let pointers = keys.as_ptr().cast_mut().cast::<*const c_void>();
            // SAFETY: `n` (at most 64, at least 1) pointers to keys, which are
            // read only, and `n` places to write to; for the rest see `lookup`.
            unsafe {
                sys::rte_hash_lookup_bulk(
                    self.hash.as_ptr(),
                    pointers,
                    n as u32,
                    places.as_mut_ptr(),
                );
            }
        }
    }
}

impl Drop for Raw {
    fn drop(&mut self) {
        // SAFETY: made by rte_hash_create, and nobody else has it any more.
        unsafe { sys::rte_hash_free(self.hash.as_ptr()) };
    }
}

/// What all kinds offer for lookups.
macro_rules! lookups {
    () => {
        /// The place of `key`.
        #[inline]
        #[must_use]
        pub fn lookup(&self, key: &HashKey) -> Option<u32> {
            self.raw.lookup(key)
        }

        /// Looks all `keys` up and writes their places, negative for those that
        /// are not there, as far as both slices reach.
        #[inline]
        pub fn lookup_bulk(&self, keys: &[&HashKey], places: &mut [i32]) {
            self.raw.lookup_bulk(keys, places);
        }
    };
}

/// A table without any flag: a thread that changes it must have it alone.
#[derive(Debug)]
pub struct Hash {
    raw: Raw,
}

impl Hash {
    /// An empty table for about `entries` keys (DPDK rounds its buckets up to
    /// a power of two). Names are unique among all hash tables.
    ///
    /// # Errors
    /// EAL does not run, the name is taken, or there is no memory.
    pub fn new(name: &str, entries: u32, function: HashFunction) -> Result<Self, HashError> {
        Ok(Self { raw: Raw::new(name, entries, function, 0)? })
    }

    /// Adds `key`; its place, also if it is there already.
    ///
    /// # Errors
    /// There is no room.
    #[inline]
    pub fn add(&mut self, key: &HashKey) -> Result<u32, HashFull> {
        // SAFETY: `&mut self`: nobody else uses the table.
        unsafe { self.raw.add(key) }
    }

    /// Removes `key`; where it was.
    #[inline]
    pub fn del(&mut self, key: &HashKey) -> Option<u32> {
        // SAFETY: `&mut self`: nobody else uses the table.
        unsafe { self.raw.del(key) }
    }

    lookups!();
}

/// A table with a reader-writer lock inside (`RW_CONCURRENCY`): its one writer,
/// and the first reader.
///
/// # Errors
/// As for [`Hash::new`].
pub fn locked(
    name: &str,
    entries: u32,
    function: HashFunction,
) -> Result<(HashWriter, HashReader), HashError> {
    shared(name, entries, function, Places::AtOnce)
}

/// A table whose lookups take no lock (`RW_CONCURRENCY_LF`): its one writer,
/// and the first reader.
///
/// # Errors
/// As for [`Hash::new`].
pub fn lock_free(
    name: &str,
    entries: u32,
    function: HashFunction,
) -> Result<(HashWriter, HashReader), HashError> {
    shared(name, entries, function, Places::Later(Vec::new()))
}

fn shared(
    name: &str,
    entries: u32,
    function: HashFunction,
    places: Places,
) -> Result<(HashWriter, HashReader), HashError> {
    let flags = match places {
        Places::AtOnce => sys::RTE_HASH_EXTRA_FLAGS_RW_CONCURRENCY,
        Places::Later(_) => sys::RTE_HASH_EXTRA_FLAGS_RW_CONCURRENCY_LF,
    };
    let raw = Arc::new(Raw::new(name, entries, function, flags)?);
    Ok((HashWriter { raw: Arc::clone(&raw), places }, HashReader { raw }))
}

/// When the places of removed keys may be used again.
#[derive(Debug)]
enum Places {
    /// No reader is at work when a key is removed.
    AtOnce,
    /// Readers may be comparing these keys still.
    Later(Vec<i32>),
}

/// The only writer of a table.
#[derive(Debug)]
pub struct HashWriter {
    raw: Arc<Raw>,
    places: Places,
}

impl HashWriter {
    /// Adds `key`; its place, also if it is there already.
    ///
    /// # Errors
    /// There is no room. Without a lock inside, places of removed keys count
    /// until [`Self::recycle`].
    #[inline]
    pub fn add(&mut self, key: &HashKey) -> Result<u32, HashFull> {
        // SAFETY: the table's only writer, by `&mut`. Readers are kept out by the
        // lock; without it, places they may look at are not written: `del`
        // keeps them.
        unsafe { self.raw.add(key) }
    }

    /// Removes `key`; where it was. Without a lock inside, the place is not used
    /// again before [`Self::recycle`].
    #[inline]
    pub fn del(&mut self, key: &HashKey) -> Option<u32> {
        // SAFETY: the table's only writer, by `&mut`.
        let place = unsafe { self.raw.del(key) };
        if let Places::Later(removed) = &mut self.places {
            removed.extend(place.map(|place| place as i32));
        }
        place
    }

    /// Makes the places of removed keys usable again; how many. `None`, and
    /// nothing is done, while there are readers.
    pub fn recycle(&mut self) -> Option<usize> {
        let raw = Arc::get_mut(&mut self.raw)?;
        let Places::Later(removed) = &mut self.places else { return Some(0) };
        for place in removed.iter() {
            // SAFETY: the place of a key removed from this table, once, and no
            // reader exists that could still compare it.
            unsafe { sys::rte_hash_free_key_with_position(raw.hash.as_ptr(), *place) };
        }
        let count = removed.len();
        removed.clear();
        Some(count)
    }

    /// Another reader.
    #[must_use]
    pub fn reader(&self) -> HashReader {
        HashReader { raw: Arc::clone(&self.raw) }
    }
}

/// A reader of a table that somebody else changes.
#[derive(Clone, Debug)]
pub struct HashReader {
    raw: Arc<Raw>,
}

impl HashReader {
    lookups!();
}
