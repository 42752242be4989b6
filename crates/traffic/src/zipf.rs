//! Few heavy flows, many light ones.

use crate::{Rng, TrafficError};

/// Flow indices from 0 to `flows` - 1; index k has weight 1 / (k + 1)^alpha, so
/// index 0 is the heaviest flow.
///
/// Rejection-inversion (Hörmann, Derflinger: Rejection-inversion to generate
/// variates from monotone discrete distributions, ACM TOMACS 6(3), 1996): no
/// tables, and a constant number of steps a draw whatever the number of flows.
#[derive(Debug, Clone)]
pub struct Zipf {
    flows: u32,
    alpha: f64,
    /// The integral of the hat up to the left and right ends.
    low: f64,
    high: f64,
    /// Distance below the rank within which every draw is accepted at once.
    squeeze: f64,
    rng: Rng,
}

impl Zipf {
    /// Over so many flows with the exponent `alpha`.
    ///
    /// # Errors
    /// [`TrafficError::NoFlows`] for none, [`TrafficError::Exponent`] for an
    /// exponent that is not finite and above 0.
    pub fn new(flows: u32, alpha: f64, seed: u64) -> Result<Self, TrafficError> {
        if flows == 0 {
            return Err(TrafficError::NoFlows);
        }
        if !(alpha.is_finite() && alpha > 0.0) {
            return Err(TrafficError::Exponent(alpha));
        }
        // The first rank's column of the hat is cut to its very weight.
        let low = integral(alpha, 1.5) - 1.0;
        let high = integral(alpha, f64::from(flows) + 0.5);
        let squeeze = 2.0 - inverse(alpha, integral(alpha, 2.5) - 2.0_f64.powf(-alpha));
        Ok(Self { flows, alpha, low, high, squeeze, rng: Rng::new(seed) })
    }

    /// The share of all packets that the `heaviest` heaviest flows carry, from
    /// 0 to 1, by the distribution's definition. Takes time in proportion to
    /// the number of flows.
    #[must_use]
    pub fn share(&self, heaviest: u32) -> f64 {
        let weights = |flows: u32| -> f64 {
            // The small ones first: nothing is lost in the sum.
            (1..=flows).rev().map(|rank| f64::from(rank).powf(-self.alpha)).sum()
        };
        weights(heaviest.min(self.flows)) / weights(self.flows)
    }
}

impl Iterator for Zipf {
    type Item = u32;

    #[inline]
    fn next(&mut self) -> Option<u32> {
        loop {
            let u = self.high + self.rng.unit() * (self.low - self.high);
            let x = inverse(self.alpha, u);
            let rank = x.round().clamp(1.0, f64::from(self.flows));
            let kept = rank - x <= self.squeeze
                || u >= integral(self.alpha, rank + 0.5) - rank.powf(-self.alpha);
            if kept {
                return Some(rank as u32 - 1);
            }
        }
    }
}

/// H(x) = (x^(1 - alpha) - 1) / (1 - alpha), the integral of x^-alpha from 1;
/// ln(x) for alpha = 1. Exact near 1 too.
fn integral(alpha: f64, x: f64) -> f64 {
    let (log, power) = (x.ln(), 1.0 - alpha);
    let t = power * log;
    if t.abs() < 1e-8 { log * (1.0 + t / 2.0) } else { t.exp_m1() / power }
}

/// The inverse of [`integral`].
fn inverse(alpha: f64, y: f64) -> f64 {
    let power = 1.0 - alpha;
    let t = (power * y).max(-1.0);
    if t.abs() < 1e-8 { (y * (1.0 - t / 2.0)).exp() } else { (t.ln_1p() / power).exp() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integral_and_inverse_undo_each_other() {
        for alpha in [0.5, 1.0 - 1e-12, 1.0, 1.0 + 1e-10, 1.2, 2.0] {
            for x in [0.6, 1.0, 1.5, 17.0, 4e6] {
                let back = inverse(alpha, integral(alpha, x));
                assert!((back / x - 1.0).abs() < 1e-6, "alpha {alpha}, {x} became {back}");
            }
        }
    }

    #[test]
    fn share_is_by_definition() {
        let zipf = Zipf::new(3, 1.0, 0).unwrap();
        let all = 1.0 + 0.5 + 1.0 / 3.0;
        assert!((zipf.share(1) - 1.0 / all).abs() < 1e-12);
        assert!((zipf.share(2) - 1.5 / all).abs() < 1e-12);
        assert!((zipf.share(9) - 1.0).abs() < 1e-12);
    }
}
