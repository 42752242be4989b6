//! How measured times are spread.
use serde::Serialize;

/// Times of one kind, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Spread {
    /// How many there are.
    pub count: usize,
    /// The least.
    pub min_ns: u64,
    /// Half of them are no longer.
    pub p50_ns: u64,
    /// 99 of 100 are no longer.
    pub p99_ns: u64,
    /// The longest.
    pub max_ns: u64,
}

impl Spread {
    /// Of `times`; `None`: there are none.
    #[must_use]
    pub fn of(mut times: Vec<u64>) -> Option<Self> {
        times.sort_unstable();
        let part = |percent: usize| {
            let rank = (times.len() * percent).div_ceil(100).max(1);
            times.get(rank - 1).copied()
        };
        Some(Self {
            count: times.len(),
            min_ns: times.first().copied()?,
            p50_ns: part(50)?,
            p99_ns: part(99)?,
            max_ns: times.last().copied()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_of_the_nearest_rank() {
        let spread = Spread::of((1..=200).rev().collect()).unwrap();
        let wanted = Spread { count: 200, min_ns: 1, p50_ns: 100, p99_ns: 198, max_ns: 200 };
        assert_eq!(spread, wanted);
        assert_eq!(Spread::of(vec![7]).map(|one| (one.p50_ns, one.p99_ns)), Some((7, 7)));
        assert_eq!(Spread::of(Vec::new()), None);
    }
}
