//! Quiescent-state based reclamation: a removed record is used again only when
//! no worker can still hold a reference to it.
//!
//! The keeper takes the removed records and raises the epoch; a worker copies
//! the epoch at the top of its loop, where it holds no reference. When every
//! registered worker has copied an epoch raised after the removal, no worker
//! can have found the records in the index since.
use std::sync::{Arc, PoisonError};

use crate::sync::{AtomicU64, Mutex, Ordering};

/// Most workers that can be registered at a time.
pub const MAX_READERS: usize = if cfg!(loom) { 3 } else { 64 };

/// The epoch of places that no worker has.
const ABSENT: u64 = 0;

/// Why a worker can't be registered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReaderError {
    /// As many as can be are there already.
    #[error(
        "{MAX_READERS} readers of the connection table are registered, no more fit: drop one first"
    )]
    TooMany,
}

/// One worker's epoch, on a cache line of its own.
#[derive(Debug)]
#[repr(align(128))]
struct Seat(AtomicU64);

/// All registered workers.
#[derive(Debug)]
pub(crate) struct Readers {
    epoch: AtomicU64,
    seats: [Seat; MAX_READERS],
    /// Held while workers are counted, come or go; never by a worker in its loop.
    roll: Mutex<()>,
}

/// One worker's registration; while it exists, records that the worker has
/// found are not reused before its next [`Reader::quiesce`].
#[derive(Debug)]
pub struct Reader {
    readers: Arc<Readers>,
    seat: usize,
}

impl Readers {
    pub(crate) fn new() -> Self {
        Self {
            epoch: AtomicU64::new(ABSENT + 1),
            seats: std::array::from_fn(|_| Seat(AtomicU64::new(ABSENT))),
            roll: Mutex::new(()),
        }
    }

    pub(crate) fn register(self: &Arc<Self>) -> Result<Reader, ReaderError> {
        let _roll = self.roll.lock().unwrap_or_else(PoisonError::into_inner);
        let absent = |seat: &Seat| seat.0.load(Ordering::Relaxed) == ABSENT;
        let seat = self.seats.iter().position(absent).ok_or(ReaderError::TooMany)?;
        let reader = Reader { readers: Arc::clone(self), seat };
        reader.quiesce();
        Ok(reader)
    }

    /// Begins a grace period; the epoch that all workers must have copied. What
    /// was unlinked before is out of reach for those who have.
    pub(crate) fn raise(&self) -> u64 {
        self.epoch.fetch_add(1, Ordering::AcqRel) + 1
    }

    /// Whether every registered worker has copied `epoch` or a later one.
    /// Acquire: what they read before is read.
    pub(crate) fn all_passed(&self, epoch: u64) -> bool {
        let _roll = self.roll.lock().unwrap_or_else(PoisonError::into_inner);
        self.seats.iter().all(|seat| {
            let seen = seat.0.load(Ordering::Acquire);
            seen == ABSENT || seen >= epoch
        })
    }
}

impl Reader {
    /// Says that the worker holds no [`crate::Hit`] and no [`crate::ConnId`]
    /// it has found before: to be called at the top of its loop. Two loads and
    /// at most one store. A worker that never calls it keeps removed records
    /// from being reused; one that pauses for long should drop its reader.
    #[inline]
    pub fn quiesce(&self) {
        let epoch = self.readers.epoch.load(Ordering::Acquire);
        if let Some(seat) = self.readers.seats.get(self.seat) {
            if seat.0.load(Ordering::Relaxed) != epoch {
                seat.0.store(epoch, Ordering::Release);
            }
        }
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        if let Some(seat) = self.readers.seats.get(self.seat) {
            seat.0.store(ABSENT, Ordering::Release);
        }
    }
}
