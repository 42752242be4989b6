//! Medians with their confidence, and straight lines.

use serde::Serialize;

/// A median and an interval around it.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Estimate {
    /// The sample's median.
    pub median: f64,
    /// Lower end of the interval.
    pub low: f64,
    /// Upper end of the interval.
    pub high: f64,
    /// The probability, whatever the distribution, that the interval holds the
    /// true median: 0.95 or more from 6 values on; with fewer the interval is
    /// the whole range and this is what it is worth.
    pub coverage: f64,
    /// How many values.
    pub count: usize,
}

/// The median of values that are numbers; `None` without any.
#[must_use]
pub fn median(values: &[f64]) -> Option<f64> {
    let sorted = sorted(values);
    let upper = *sorted.get(sorted.len() / 2)?;
    if sorted.len() % 2 == 1 {
        return Some(upper);
    }
    sorted.get(sorted.len() / 2 - 1).map(|lower| f64::midpoint(*lower, upper))
}

/// The standard deviation of values; `None` without any.
#[must_use]
pub fn deviation(values: &[f64]) -> Option<f64> {
    let count = values.len() as f64;
    let mean = values.iter().sum::<f64>() / count;
    let square = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / count;
    (!values.is_empty()).then(|| square.sqrt())
}

/// The least value, the quartiles with the median between them, and the greatest: what a
/// box plot shows. Quartiles lie between the two nearest values (Hyndman and Fan, type 7).
/// Zeros without any value.
#[must_use]
pub(crate) fn five_numbers(values: &[f64]) -> [f64; 5] {
    let sorted = sorted(values);
    let last = sorted.len().saturating_sub(1);
    [0.0, 0.25, 0.5, 0.75, 1.0].map(|part| {
        let place = part * last as f64;
        let at = |place: f64| sorted.get(place as usize).copied().unwrap_or_default();
        let (below, above) = (at(place.floor()), at(place.ceil()));
        below + (above - below) * place.fract()
    })
}

fn sorted(values: &[f64]) -> Vec<f64> {
    let mut sorted: Vec<f64> = values.iter().copied().filter(|v| !v.is_nan()).collect();
    sorted.sort_by(f64::total_cmp);
    sorted
}

impl Estimate {
    /// The median and its narrowest symmetric interval of order statistics
    /// that covers the true median with a probability of at least 0.95:
    /// `[x(l), x(n + 1 - l)]` covers it with 1 - 2 P(B < l), B binomial with n
    /// and one half (David, Nagaraja: Order Statistics, 7.1). Values that are
    /// not finite are passed over; `None` if nothing is left.
    #[must_use]
    pub fn of(values: &[f64]) -> Option<Self> {
        let mut sorted = sorted(values);
        sorted.retain(|value| value.is_finite());
        let count = sorted.len();
        let median = median(&sorted)?;
        let below = below_half(count);
        // The tail of l is P(B < l) = below[l - 1].
        let outside = below.iter().take(count / 2).take_while(|tail| 2.0 * **tail <= 0.05).count();
        let l = outside.max(1);
        let coverage = 1.0 - 2.0 * below.get(l - 1)?;
        let (low, high) = (*sorted.get(l - 1)?, *sorted.get(count - l)?);
        Some(Self { median, low, high, coverage: coverage.max(0.0), count })
    }
}

/// P(B <= k) for k from 0 to n, B binomial with n and one half.
fn below_half(n: usize) -> Vec<f64> {
    let mut term = 0.5_f64.powf(n as f64);
    let mut sum = 0.0;
    (0..=n)
        .map(|k| {
            sum += term;
            term *= (n - k) as f64 / (k + 1) as f64;
            sum
        })
        .collect()
}

/// The straight line of least squares through points.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Line {
    /// Rise per unit of x.
    pub slope: f64,
    /// Value at x = 0.
    pub intercept: f64,
    /// Coefficient of determination, R²: 1 for points on a line.
    pub r_squared: f64,
    /// Greatest distance of a point from the line, in units of y.
    pub greatest_deviation: f64,
}

impl Line {
    /// Fits the line; `None` for fewer than 3 points (two are always on one)
    /// or a single x.
    #[must_use]
    pub fn fit(points: &[(f64, f64)]) -> Option<Self> {
        if points.len() < 3 {
            return None;
        }
        let n = points.len() as f64;
        let (mean_x, mean_y) = (
            points.iter().map(|(x, _)| x).sum::<f64>() / n,
            points.iter().map(|(_, y)| y).sum::<f64>() / n,
        );
        let sum = |of: &dyn Fn(f64, f64) -> f64| {
            points.iter().map(|(x, y)| of(x - mean_x, y - mean_y)).sum::<f64>()
        };
        let (xx, xy, yy) = (sum(&|x, _| x * x), sum(&|x, y| x * y), sum(&|_, y| y * y));
        if xx <= 0.0 {
            return None;
        }
        let slope = xy / xx;
        let intercept = mean_y - slope * mean_x;
        let off = points.iter().map(|(x, y)| y - (intercept + slope * x));
        let residual: f64 = off.clone().map(|d| d * d).sum();
        let r_squared = if yy > 0.0 { 1.0 - residual / yy } else { 1.0 };
        let greatest_deviation = off.map(f64::abs).fold(0.0, f64::max);
        Some(Self { slope, intercept, r_squared, greatest_deviation })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_five_numbers_of_a_box() {
        assert_eq!(five_numbers(&[4.0, 1.0, 3.0, 2.0]), [1.0, 1.75, 2.5, 3.25, 4.0]);
        assert_eq!(five_numbers(&[7.0]), [7.0; 5]);
        assert_eq!(five_numbers(&[]), [0.0; 5]);
    }

    #[test]
    fn medians() {
        assert_eq!(median(&[]), None);
        assert_eq!(median(&[3.0]), Some(3.0));
        assert_eq!(median(&[5.0, 1.0, 3.0]), Some(3.0));
        assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), Some(2.5));
        assert_eq!(median(&[f64::NAN, 1.0]), Some(1.0));
    }

    #[test]
    fn intervals_are_those_of_the_tables() {
        // Tables of the sign test at 5 %: n, the rank of the lower end, coverage.
        for (n, rank, coverage) in [
            (6, 1, 0.96875),
            (8, 1, 0.9921875),
            (9, 2, 0.9609375),
            (10, 2, 0.978515625),
            (20, 6, 0.958610535),
            (30, 10, 0.957226055),
        ] {
            let values: Vec<f64> = (1..=n).map(f64::from).collect();
            let estimate = Estimate::of(&values).unwrap();
            assert_eq!((estimate.low, estimate.high), (f64::from(rank), f64::from(n + 1 - rank)));
            assert!((estimate.coverage - coverage).abs() < 1e-8, "{n}: {}", estimate.coverage);
        }
    }

    #[test]
    fn few_values_are_worth_what_they_are_worth() {
        let three = Estimate::of(&[1.0, 9.0, 4.0]).unwrap();
        assert_eq!((three.low, three.median, three.high), (1.0, 4.0, 9.0));
        assert!((three.coverage - 0.75).abs() < 1e-12);
        let one = Estimate::of(&[7.0]).unwrap();
        assert_eq!((one.low, one.high, one.coverage), (7.0, 7.0, 0.0));
    }

    #[test]
    fn regression_is_the_textbooks() {
        // Anscombe's quartet, first set: y = 3.00 + 0.500 x, R² = 0.667.
        let x = [10.0, 8.0, 13.0, 9.0, 11.0, 14.0, 6.0, 4.0, 12.0, 7.0, 5.0];
        let y = [8.04, 6.95, 7.58, 8.81, 8.33, 9.96, 7.24, 4.26, 10.84, 4.82, 5.68];
        let points: Vec<(f64, f64)> = x.into_iter().zip(y).collect();
        let line = Line::fit(&points).unwrap();
        assert!((line.slope - 0.500_091).abs() < 1e-6);
        assert!((line.intercept - 3.000_091).abs() < 1e-6);
        assert!((line.r_squared - 0.666_542).abs() < 1e-6);
        // The point at 13: 7.58 against 9.5013.
        assert!((line.greatest_deviation - 1.921_273).abs() < 1e-5);
    }

    #[test]
    fn no_line_through_too_little() {
        assert_eq!(Line::fit(&[(0.0, 1.0), (1.0, 2.0)]), None);
        assert_eq!(Line::fit(&[(1.0, 1.0), (1.0, 2.0), (1.0, 3.0)]), None);
    }

    proptest! {
        #[test]
        fn the_interval_is_around_the_median(values in prop::collection::vec(-1e3..1e3, 1..60)) {
            let estimate = Estimate::of(&values).unwrap();
            prop_assert!(estimate.low <= estimate.median && estimate.median <= estimate.high);
            prop_assert!(values.len() < 6 || estimate.coverage >= 0.95);
        }

        #[test]
        fn points_on_a_line_are_found(slope in -9.0..9.0_f64, intercept in -9.0..9.0_f64) {
            let points: Vec<_> = (0..9).map(|x| (f64::from(x), intercept + slope * f64::from(x))).collect();
            let line = Line::fit(&points).unwrap();
            prop_assert!((line.slope - slope).abs() < 1e-9 && line.greatest_deviation < 1e-9);
        }
    }
}
