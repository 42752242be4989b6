//! Striped spin locks for buckets and striped counters of moves.
use crate::sync::{AtomicU32, AtomicU64, Ordering, spin_loop, yield_now};

/// Most stripes of locks a table has: 16 KiB of them stay in the cache.
const MOST_LOCKS: usize = if cfg!(loom) { 4 } else { 1024 };

/// Most counters of moves, for the same reason.
const MOST_COUNTERS: usize = if cfg!(loom) { 4 } else { 4096 };

/// Tries at a taken lock before the thread offers its core to others. Holders
/// hold a lock for some hundred nanoseconds, so this is reached only if the
/// holder itself was put to sleep.
const SPINS: u32 = 200;

/// A lock, and what its holders count.
#[derive(Debug)]
struct Stripe {
    lock: AtomicU32,
    /// Written by the holder only, so that counting needs no atomic addition.
    count: AtomicU64,
}

/// Locks, each shared by every n-th bucket.
#[derive(Debug)]
pub(crate) struct Locks {
    stripes: Box<[Stripe]>,
}

/// Up to four held locks.
pub(crate) struct Held<'a> {
    stripes: [Option<&'a Stripe>; 4],
}

impl Locks {
    pub(crate) fn new(buckets: usize) -> Self {
        let count = buckets.next_power_of_two().min(MOST_LOCKS);
        let stripe = |_| Stripe { lock: AtomicU32::new(0), count: AtomicU64::new(0) };
        Self { stripes: (0..count).map(stripe).collect() }
    }

    pub(crate) fn bytes(&self) -> usize {
        size_of_val::<[Stripe]>(&self.stripes)
    }

    /// What all holders have counted.
    pub(crate) fn count(&self) -> u64 {
        self.stripes.iter().map(|stripe| stripe.count.load(Ordering::Relaxed)).sum()
    }

    /// Locks all of `buckets`, in the order of their stripes, so that no two
    /// threads wait for each other.
    pub(crate) fn lock(&self, buckets: [usize; 4]) -> Held<'_> {
        let numbers = sorted(buckets.map(|bucket| bucket & (self.stripes.len() - 1)));
        let mut held = Held { stripes: [None; 4] };
        let mut last = None;
        for (number, place) in numbers.into_iter().zip(&mut held.stripes) {
            if last != Some(number) {
                *place = self.stripes.get(number).inspect(|stripe| acquire(&stripe.lock));
                last = Some(number);
            }
        }
        held
    }
}

/// In ascending order, by a network of five exchanges: their outcome can't be
/// predicted, so there is no branch.
fn sorted([a, b, c, d]: [usize; 4]) -> [usize; 4] {
    let (a, b) = (a.min(b), a.max(b));
    let (c, d) = (c.min(d), c.max(d));
    let (a, c) = (a.min(c), a.max(c));
    let (b, d) = (b.min(d), b.max(d));
    [a, b.min(c), b.max(c), d]
}

impl Held<'_> {
    /// Adds one to [`Locks::count`].
    pub(crate) fn count(&self) {
        if let Some(stripe) = self.stripes.iter().flatten().next() {
            let count = stripe.count.load(Ordering::Relaxed);
            stripe.count.store(count + 1, Ordering::Relaxed);
        }
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
        for stripe in self.stripes.into_iter().flatten() {
            stripe.lock.store(0, Ordering::Release);
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
        let count = buckets.next_power_of_two().min(MOST_COUNTERS);
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

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn four_numbers_are_sorted() {
        for n in 0..256 {
            let numbers = [n & 3, n >> 2 & 3, n >> 4 & 3, n >> 6];
            let mut wanted = numbers;
            wanted.sort_unstable();
            assert_eq!(sorted(numbers), wanted);
        }
    }
}
