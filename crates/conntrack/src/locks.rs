//! Holding the locks of several buckets.
use crate::bucket::Bucket;

/// The locks of up to `N` buckets, until dropped.
pub(crate) struct BucketGuards<'a, const N: usize> {
    buckets: [Option<&'a Bucket>; N],
}

impl<'a, const N: usize> BucketGuards<'a, N> {
    /// Locks the buckets with these numbers, in the order of the numbers, so
    /// that no two threads wait for each other.
    #[inline]
    pub(crate) fn lock(numbers: [usize; N], bucket: impl Fn(usize) -> &'a Bucket) -> Self {
        let mut held = Self { buckets: [None; N] };
        let mut last = None;
        for (number, place) in sorted(numbers).into_iter().zip(&mut held.buckets) {
            if last != Some(number) {
                let bucket = bucket(number);
                bucket.lock();
                *place = Some(bucket);
                last = Some(number);
            }
        }
        held
    }
}

impl<const N: usize> Drop for BucketGuards<'_, N> {
    #[inline]
    fn drop(&mut self) {
        for bucket in self.buckets.into_iter().flatten() {
            bucket.unlock();
        }
    }
}

/// The locks of two buckets, or of one, until dropped.
pub(crate) struct Pair<'a> {
    low: &'a Bucket,
    /// Another one.
    high: Option<&'a Bucket>,
}

impl<'a> Pair<'a> {
    /// Locks both, the one with the lower number first, as [`BucketGuards::lock`] does:
    /// they lie in one array.
    #[inline(always)]
    pub(crate) fn lock(a: &'a Bucket, b: &'a Bucket) -> Self {
        let (one, other) = (std::ptr::from_ref(a), std::ptr::from_ref(b));
        let pair = Self {
            low: if one < other { a } else { b },
            high: (one != other).then_some(if one < other { b } else { a }),
        };
        pair.low.lock();
        if let Some(high) = pair.high {
            high.lock();
        }
        pair
    }
}

impl Drop for Pair<'_> {
    #[inline]
    fn drop(&mut self) {
        self.low.unlock();
        if let Some(high) = self.high {
            high.unlock();
        }
    }
}

/// In ascending order, every two compared once: the outcome can't be
/// predicted, so there is no branch.
#[inline]
fn sorted<const N: usize>(mut numbers: [usize; N]) -> [usize; N] {
    for a in 0..N {
        for b in a + 1..N {
            (numbers[a], numbers[b]) = (numbers[a].min(numbers[b]), numbers[a].max(numbers[b]));
        }
    }
    numbers
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
