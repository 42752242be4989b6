//! Which buckets entries have moved in, for readers that take no lock.
//!
//! A clock counts the steps of all moves, and each stripe of buckets keeps the
//! clock's reading at the last step in one of its buckets. A reader notes the
//! clock before a burst. If the clock says the same afterwards, nothing has moved
//! anywhere, which costs one load for the whole burst; otherwise the stripes of
//! a key's two buckets say whether a move can have concerned that key. A count
//! per stripe without the clock would cost each key a load before its lookup.
use crate::sync::{AtomicU64, Ordering, fence};

/// Stripes of buckets; few under loom, where each costs every model.
const STRIPES: usize = if cfg!(loom) { 2 } else { 64 };

/// A cache line for each of these: other cores write them.
#[derive(Debug)]
#[repr(align(128))]
struct Line(AtomicU64);

/// Steps of moves. A move has two: one before the copy is written, and one
/// between that and the end of the original.
#[derive(Debug)]
pub(crate) struct Moves {
    clock: Line,
    stripes: [Line; STRIPES],
}

impl Moves {
    /// Nothing has moved.
    pub(crate) fn new() -> Self {
        let line = || Line(AtomicU64::new(0));
        Self { clock: line(), stripes: std::array::from_fn(|_| line()) }
    }

    /// A step of a move between these buckets; only under the locks of both.
    /// Stores after it must release: they publish the stripes' new readings.
    pub(crate) fn step(&self, buckets: [usize; 2]) {
        let now = self.clock.0.fetch_add(1, Ordering::Release) + 1;
        for bucket in buckets {
            // Others may have a later reading by now: stripes never go back.
            self.stripe(bucket).fetch_max(now, Ordering::Relaxed);
        }
    }

    /// How many moves there were.
    pub(crate) fn count(&self) -> u64 {
        self.clock.0.load(Ordering::Relaxed) / 2
    }

    /// The clock's reading, before a lookup. Acquire: see [`Self::none_since`].
    #[inline]
    pub(crate) fn now(&self) -> u64 {
        self.clock.0.load(Ordering::Acquire)
    }

    /// Whether nothing has moved since the clock read `before`. Then a hit was no
    /// mixture (see `Slot::compare`) and a miss no miss of an entry that moved:
    ///
    /// A mixture needs an entry that left the slot and came back. A reader that
    /// reads it after its return sees the first step of the move back, here. A
    /// reader that saw that step before has seen the entry leave, too, and can't
    /// have read it then.
    ///
    /// A miss of an entry that is there all the time needs one bucket read before
    /// the copy came and the other after the original's end. A reader that reads
    /// that end sees the second step, here. A reader that saw that step before has
    /// seen the copy, too.
    #[inline]
    pub(crate) fn none_since(&self, before: u64) -> bool {
        fence(Ordering::Acquire);
        self.clock.0.load(Ordering::Relaxed) == before
    }

    /// Whether nothing has moved in or out of `bucket` since the clock read
    /// `before`; only after [`Self::none_since`], which has the fence. The same
    /// holds for hits and misses there: both steps of a move are noted in the
    /// stripes of both its buckets before what they announce is written, so a
    /// reader that has seen any of that sees a stripe's reading at least as late,
    /// and the clock's earlier reading is as late only if it saw the step before.
    #[inline]
    pub(crate) fn none_in(&self, bucket: usize, before: u64) -> bool {
        self.stripe(bucket).load(Ordering::Relaxed) <= before
    }

    #[inline]
    fn stripe(&self, bucket: usize) -> &AtomicU64 {
        let [first, ..] = &self.stripes;
        &self.stripes.get(bucket % STRIPES).unwrap_or(first).0
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_move_disturbs_the_stripes_of_its_buckets_alone() {
        let moves = Moves::new();
        moves.step([1, 2]);
        let before = moves.now();
        moves.step([5, STRIPES + 9]);
        moves.step([5, STRIPES + 9]);
        assert!(!moves.none_since(before) && moves.none_since(before + 2));
        for bucket in 0..2 * STRIPES {
            let disturbed = [5, 9].contains(&(bucket % STRIPES));
            assert_eq!(moves.none_in(bucket, before), !disturbed, "bucket {bucket}");
            assert!(moves.none_in(bucket, moves.now()));
        }
        assert_eq!(moves.count(), 1, "of two steps each, one and a half");
    }
}
