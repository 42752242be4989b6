//! An endless walk over something of both families, a slice at a time.
use std::sync::PoisonError;

use crate::sync::Mutex;

/// Where a walk is: in which family, IPv4 first, and how far. Several callers
/// share one walk.
#[derive(Debug)]
pub(crate) struct Walk(Mutex<(bool, u32)>);

/// Numbers of one family.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Slice {
    pub(crate) is_v6: bool,
    pub(crate) start: u32,
    pub(crate) count: u32,
}

impl Walk {
    pub(crate) fn new() -> Self {
        Self(Mutex::new((false, 0)))
    }

    /// The next slices, of `budget` numbers in all, at most once around; those of
    /// IPv4 are below the first of `ends`, those of IPv6 below the second.
    pub(crate) fn slices(&self, ends: [u32; 2], budget: usize) -> impl Iterator<Item = Slice> {
        let mut left = budget.min(ends.iter().map(|end| *end as usize).sum());
        std::iter::from_fn(move || {
            let slice = (left > 0).then(|| self.advance(ends, left))?;
            left -= (slice.count as usize).min(left);
            Some(slice)
        })
    }

    /// The next slice of at most `most` numbers.
    fn advance(&self, [v4, v6]: [u32; 2], most: usize) -> Slice {
        let mut place = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (mut is_v6, mut start) = *place;
        let end = |is_v6| if is_v6 { v6 } else { v4 };
        if start >= end(is_v6) {
            is_v6 = !is_v6;
            start = 0;
        }
        let count = (end(is_v6) - start).min(u32::try_from(most).unwrap_or(u32::MAX));
        *place = (is_v6, start + count);
        Slice { is_v6, start, count }
    }
}
