//! Some values: their median and how far apart they are.
use crate::statistics::median;

/// Median and range.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Spread {
    pub(super) median: f64,
    pub(super) least: f64,
    pub(super) most: f64,
}

impl Spread {
    /// `None` if there is no value.
    pub(super) fn of(values: impl Iterator<Item = Option<f64>>) -> Option<Self> {
        let mut values: Vec<f64> = values.flatten().collect();
        values.sort_by(f64::total_cmp);
        let (least, most) = (*values.first()?, *values.last()?);
        // Infinity is a value: it never came to that.
        Some(Self { median: median(&values)?, least, most })
    }

    /// `median [least, most]`, or `-` for what never was.
    pub(super) fn text(&self, decimals: usize) -> String {
        let text = |value: f64| {
            if value.is_finite() { format!("{value:.decimals$}") } else { "-".to_owned() }
        };
        format!("{} [{}, {}]", text(self.median), text(self.least), text(self.most))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_spread_is_median_and_range() {
        let of = |values: &[f64]| Spread::of(values.iter().copied().map(Some)).unwrap();
        assert_eq!(of(&[3.0, 1.0, 2.0]), Spread { median: 2.0, least: 1.0, most: 3.0 });
        assert_eq!(of(&[4.0, 1.0, 2.0, 3.0]).median, 2.5);
        assert_eq!(of(&[1.0, f64::INFINITY, 2.0]).text(1), "2.0 [1.0, -]");
        assert_eq!(of(&[f64::INFINITY; 2]).text(1), "- [-, -]");
        assert_eq!(Spread::of([None].into_iter()), None);
    }
}
