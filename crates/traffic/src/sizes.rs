//! Packet sizes of which only the range and the mean are known.

use crate::{Rng, TrafficError};

/// Packet sizes in bytes, from a range and with a mean.
///
/// A range and a mean don't make a distribution. This is the one of greatest
/// entropy, which assumes nothing else: size s has weight exp(-lambda s), with
/// lambda such that the mean is right (0, the uniform one, if the mean is the
/// middle). A draw takes constant time (Walker's alias method).
#[derive(Debug, Clone)]
pub struct Sizes {
    min: u16,
    /// By size - min: its share of its cell, and who has the rest.
    cells: Vec<(f64, u16)>,
    rng: Rng,
}

impl Sizes {
    /// From `min` to `max` bytes, both included, `mean` on average.
    ///
    /// # Errors
    /// [`TrafficError::Sizes`] if the mean is not strictly between; with
    /// `min` = `max` = `mean` all packets are of one size.
    pub fn new(min: u16, max: u16, mean: f64, seed: u64) -> Result<Self, TrafficError> {
        let (low, high) = (f64::from(min), f64::from(max));
        let one = min == max && (mean - low).abs() < f64::EPSILON;
        if !(one || (low < mean && mean < high)) {
            return Err(TrafficError::Sizes { min, max, mean });
        }
        let weights = weights(min, max, if one { 0.0 } else { tilt(min, max, mean) });
        Ok(Self { min, cells: alias(&weights), rng: Rng::new(seed) })
    }
}

impl Iterator for Sizes {
    type Item = u16;

    #[inline]
    fn next(&mut self) -> Option<u16> {
        let at = self.rng.below(self.cells.len() as u64) as u16;
        let (share, other) = *self.cells.get(usize::from(at))?;
        let offset = if self.rng.unit() < share { at } else { other };
        Some(self.min + offset)
    }
}

/// exp(-lambda s) for all sizes, scaled so that nothing overflows.
fn weights(min: u16, max: u16, lambda: f64) -> Vec<f64> {
    let largest = if lambda < 0.0 { max } else { min };
    (min..=max).map(|s| (-lambda * (f64::from(s) - f64::from(largest))).exp()).collect()
}

/// The lambda of a mean, by bisection: the mean falls as lambda grows.
fn tilt(min: u16, max: u16, mean: f64) -> f64 {
    let of = |lambda: f64| {
        let weights = weights(min, max, lambda);
        let sum: f64 = weights.iter().sum();
        let moment: f64 = (min..=max).zip(&weights).map(|(s, w)| f64::from(s) * w).sum();
        moment / sum
    };
    let (mut low, mut high) = (-1.0, 1.0);
    while of(low) < mean && low > -1e6 {
        low *= 2.0;
    }
    while of(high) > mean && high < 1e6 {
        high *= 2.0;
    }
    for _ in 0..80 {
        let middle = f64::midpoint(low, high);
        if of(middle) > mean { low = middle } else { high = middle }
    }
    f64::midpoint(low, high)
}

/// Walker's alias table: cells of equal weight, each shared by two sizes.
#[allow(clippy::cast_precision_loss)]
fn alias(weights: &[f64]) -> Vec<(f64, u16)> {
    let scale = weights.len() as f64 / weights.iter().sum::<f64>();
    let (mut poor, mut rich): (Vec<_>, Vec<_>) =
        (0_u16..).zip(weights).map(|(at, w)| (at, w * scale)).partition(|(_, w)| *w < 1.0);
    let mut cells: Vec<(f64, u16)> = (0_u16..).take(weights.len()).map(|at| (1.0, at)).collect();
    while let (Some((small, share)), Some((large, rest))) = (poor.pop(), rich.pop()) {
        if let Some(cell) = cells.get_mut(usize::from(small)) {
            *cell = (share, large);
        }
        let left = rest - (1.0 - share);
        if left < 1.0 { &mut poor } else { &mut rich }.push((large, left));
    }
    // A size that rounding leaves over keeps a whole cell.
    cells
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_alias_table_has_the_weights_it_was_made_of() {
        let weights = [5.0, 1.0, 0.5, 2.0, 1.5];
        let mut back = [0.0; 5];
        for (at, (share, other)) in alias(&weights).into_iter().enumerate() {
            back[at] += share;
            back[usize::from(other)] += 1.0 - share;
        }
        for (weight, back) in weights.iter().zip(back) {
            assert!((weight / 10.0 - back / 5.0).abs() < 1e-12);
        }
    }

    #[test]
    fn impossible_means_are_refused_and_one_size_is_one_size() {
        for mean in [60.0, 59.0, 1500.0, f64::NAN] {
            assert!(Sizes::new(60, 1500, mean, 0).is_err(), "{mean}");
        }
        assert!(Sizes::new(64, 64, 64.0, 0).unwrap().take(9).all(|size| size == 64));
    }
}
