//! How linear util+ is (condition iii of the paper's section IV).
use crate::row::Row;

/// A straight line through points, and how well it fits.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize)]
pub struct Linearity {
    /// The part of the variance that the line explains, 0 to 1.
    pub r_squared: f64,
    /// The greatest distance of a point from the line.
    pub greatest_deviation: f64,
    /// Points.
    pub points: usize,
}

/// The fit of util+ against the offered rate over the rows without loss;
/// `None` if they are fewer than three.
#[must_use]
pub fn linearity<'r>(rows: impl IntoIterator<Item = &'r Row>) -> Option<Linearity> {
    let points: Vec<(f64, f64)> = rows
        .into_iter()
        .filter(|row| row.loss == 0.0)
        .filter_map(|row| Some((row.offered_mpps?, row.util_plus)))
        .collect();
    fit(&points)
}

fn fit(points: &[(f64, f64)]) -> Option<Linearity> {
    if points.len() < 3 {
        return None;
    }
    let n = points.len() as f64;
    let (x_mean, y_mean) = points.iter().fold((0.0, 0.0), |(x, y), p| (x + p.0 / n, y + p.1 / n));
    let sum = |of: &dyn Fn(f64, f64) -> f64| -> f64 {
        points.iter().map(|&(x, y)| of(x - x_mean, y - y_mean)).sum()
    };
    let (xx, xy, yy) = (sum(&|x, _| x * x), sum(&|x, y| x * y), sum(&|_, y| y * y));
    if xx == 0.0 || yy == 0.0 {
        return None;
    }
    let slope = xy / xx;
    let off = |&(x, y): &(f64, f64)| (y - y_mean - slope * (x - x_mean)).abs();
    Some(Linearity {
        r_squared: xy * xy / (xx * yy),
        greatest_deviation: points.iter().map(off).fold(0.0, f64::max),
        points: points.len(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_fits_itself_and_a_bend_does_not() {
        let line: Vec<_> = (0..5).map(|x| (f64::from(x), 0.2 * f64::from(x) + 1.0)).collect();
        let fitted = fit(&line).unwrap();
        assert!((fitted.r_squared - 1.0).abs() < 1e-12 && fitted.greatest_deviation < 1e-12);
        let bend = [(0.0, 0.0), (1.0, 0.0), (2.0, 1.0)];
        let fitted = fit(&bend).unwrap();
        assert!((fitted.r_squared - 0.75).abs() < 1e-12, "{fitted:?}");
        assert!((fitted.greatest_deviation - 1.0 / 3.0).abs() < 1e-12);
        assert_eq!(fit(&line[..2]), None);
    }
}
