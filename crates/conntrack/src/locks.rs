//! Striped spin locks for buckets and striped counters of moves.
use crate::sync::{AtomicU32, Ordering, spin_loop, yield_now};

/// Most stripes a table has: 16 KiB of locks stay in the cache.
const MOST_STRIPES: usize = if cfg!(loom) { 4 } else { 4096 };

/// Tries at a taken lock before the thread offers its core to others. Holders
/// hold a lock for some hundred nanoseconds, so this is reached only if the
/// holder itself was put to sleep.
const SPINS: u32 = 200;

/// Locks, each shared by every n-th bucket.
#[derive(Debug)]
pub(crate) struct Locks {
    stripes: Box<[AtomicU32]>,
}

/// Up to four held locks.
pub(crate) struct Held<'a> {
    locks: [Option<&'a AtomicU32>; 4],
}

impl Locks {
    pub(crate) fn new(buckets: usize) -> Self {
        let count = buckets.next_power_of_two().min(MOST_STRIPES);
        Self { stripes: (0..count).map(|_| AtomicU32::new(0)).collect() }
    }

    pub(crate) fn bytes(&self) -> usize {
        size_of_val::<[AtomicU32]>(&self.stripes)
    }

    /// Locks all of `buckets`, in the order of their stripes, so that no two
    /// threads wait for each other.
    pub(crate) fn lock<const N: usize>(&self, buckets: [usize; N]) -> Held<'_> {
        let mut stripes = buckets.map(|bucket| bucket & (self.stripes.len() - 1));
        stripes.sort_unstable();
        let mut held = Held { locks: [None; 4] };
        let mut last = None;
        for (stripe, place) in stripes.into_iter().zip(&mut held.locks) {
            if last != Some(stripe) {
                *place = self.stripes.get(stripe).inspect(|lock| acquire(lock));
                last = Some(stripe);
            }
        }
        held
    }
}

fn acquire(lock: &AtomicU32) {
    let mut tries = 0;
    while lock.compare_exchange_weak(0, 1, Ordering::Acquire, Ordering::Relaxed).is_err() {
        tries += 1;
        if cfg!(loom) || tries % SPINS == 0 {
            yield_now();
        } else {
            spin_loop();
        }
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        for lock in self.locks.into_iter().flatten() {
            lock.store(0, Ordering::Release);
        }
    }
}

/// Counters of moves. An entry's counter is the same in either of its two
/// buckets, so a reader that found a key in neither knows from one counter
/// whether the key may have been moved behind its back.
#[derive(Debug)]
pub(crate) struct Moves {
    stripes: Box<[AtomicU32]>,
}

impl Moves {
    pub(crate) fn new(buckets: usize) -> Self {
        let count = buckets.next_power_of_two().min(MOST_STRIPES);
        Self { stripes: (0..count).map(|_| AtomicU32::new(0)).collect() }
    }

    pub(crate) fn bytes(&self) -> usize {
        size_of_val::<[AtomicU32]>(&self.stripes)
    }

    fn stripe(&self, pair: usize) -> Option<&AtomicU32> {
        self.stripes.get(pair & (self.stripes.len() - 1))
    }

    /// How many moves there were in the stripe of `pair`, modulo 2^32. Acquire:
    /// whoever sees a move counted sees its copy.
    pub(crate) fn seen(&self, pair: usize) -> u32 {
        self.stripe(pair).map_or(0, |count| count.load(Ordering::Acquire))
    }

    /// Counts a move, between the write of the copy and the removal of the
    /// original. Release: see `seen`.
    pub(crate) fn count(&self, pair: usize) {
        if let Some(count) = self.stripe(pair) {
            count.fetch_add(1, Ordering::Release);
        }
    }
}
