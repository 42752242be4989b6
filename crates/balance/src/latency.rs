//! The latency of a bucket, in integers as a NIC computes it.

/// The weight of a new value, in 256ths.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Alpha(u16);

impl Alpha {
    /// The thesis' 0.25 (appendix A.1).
    pub const THESIS: Self = Self(64);

    /// A weight of `in_256ths`, from 1 to 256; `None` if it is neither.
    #[must_use]
    pub const fn new(in_256ths: u16) -> Option<Self> {
        if in_256ths == 0 || in_256ths > 256 { None } else { Some(Self(in_256ths)) }
    }
}

/// An exponentially weighted moving average of latencies. Its unit is the nanosecond,
/// which is the thesis' unit of 256 ns (section 4.1.7.1) with 8 fraction bits: an average
/// by shifts stops short of a constant value by up to 1/alpha units, so units must be
/// small. Sums are rounded to the nearest, half up. The first value counts in full.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LatencyEwma(Option<u32>);

impl LatencyEwma {
    /// Takes a latency in nanoseconds. A latency beyond 4.29 s counts as that.
    pub fn add(&mut self, ns: u64, alpha: Alpha) {
        let value = ns.min(u32::MAX.into());
        let weight = u64::from(alpha.0);
        self.0 = Some(self.0.map_or(value as u32, |old| {
            let sum = weight * value + (256 - weight) * u64::from(old);
            ((sum + 128) >> 8) as u32
        }));
    }

    /// The average in nanoseconds; 0 before the first value.
    #[must_use]
    pub fn ns(self) -> u32 {
        self.0.unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn an_average_reaches_a_constant_latency() {
        let mut average = LatencyEwma::default();
        average.add(0, Alpha::THESIS);
        for _ in 0..64 {
            average.add(25_600, Alpha::THESIS);
        }
        assert!(average.ns() > 25_600 - 2, "short of it by less than 1/128 unit: {average:?}");
    }

    #[test]
    fn the_longest_stay_saturates() {
        let mut average = LatencyEwma::default();
        average.add(u64::MAX, Alpha::THESIS);
        assert_eq!(average.ns(), u32::MAX);
    }

    proptest! {
        #[test]
        fn the_average_is_that_of_real_numbers(values in prop::collection::vec(0..1_u64 << 24, 1..50)) {
            let mut average = LatencyEwma::default();
            let mut exact = values[0] as f64;
            for (at, &value) in values.iter().enumerate() {
                average.add(value, Alpha::THESIS);
                if at > 0 {
                    exact = 0.25 * value as f64 + 0.75 * exact;
                }
            }
            // Half a unit of rounding each time, a quarter of it forgotten each time.
            prop_assert!((f64::from(average.ns()) - exact).abs() <= 2.0);
        }
    }
}
