//! Times of repeated work, and the row that they make.
use super::row::{Row, What};
use crate::statistics::median;

/// A step that took so many times the median was interrupted.
const INTERRUPTED: u64 = 8;

/// What the repetitions of one point gave.
#[derive(Default)]
pub(super) struct Times {
    /// Pieces of work a second, of each repetition.
    per_s: Vec<f64>,
    p50_us: Vec<f64>,
    p99_us: Vec<f64>,
    p999_us: Vec<f64>,
}

impl Times {
    /// A repetition: the cycles of each step, and how many pieces of work a step has.
    pub(super) fn add(&mut self, mut cycles: Vec<u64>, pieces: f64) {
        cycles.sort_unstable();
        let hz = dpdk::cycles_per_second().max(1) as f64;
        let us = |share: f64| percentile(&cycles, share) as f64 * 1e6 / hz;
        // A step that another process interrupted says nothing of the rate.
        let most = percentile(&cycles, 0.5).saturating_mul(INTERRUPTED);
        let steps = cycles.partition_point(|step| *step <= most);
        let all: u64 = cycles.iter().take(steps).sum();
        let rate = steps as f64 * pieces * hz / all.max(1) as f64;
        self.push(rate, [us(0.5), us(0.99), us(0.999)]);
    }

    /// A repetition: pieces of work a second and microseconds of the percentiles
    /// 50, 99 and 99.9.
    pub(super) fn push(&mut self, per_s: f64, [p50, p99, p999]: [f64; 3]) {
        self.per_s.push(per_s);
        self.p50_us.push(p50);
        self.p99_us.push(p99);
        self.p999_us.push(p999);
    }

    /// Pieces of work a second.
    pub(super) fn rate(&self) -> f64 {
        median(&self.per_s).unwrap_or_default()
    }

    /// Medians over the repetitions.
    pub(super) fn row(&self, what: What, engine: &str, algorithm: &str, bytes: usize) -> Row {
        let of = |values: &[f64]| round(median(values).unwrap_or_default());
        let gbps = (bytes > 0).then(|| round(self.rate() * bytes as f64 * 8.0 / 1e9));
        Row {
            what,
            engine: engine.to_owned(),
            algorithm: algorithm.to_owned(),
            bytes,
            per_s: self.rate().round(),
            gbps,
            p50_us: of(&self.p50_us),
            p99_us: of(&self.p99_us),
            p999_us: of(&self.p999_us),
            handshakes_per_s: None,
            repetitions: self.per_s.len(),
        }
    }
}

/// The value below which `share` of the sorted `values` are; 0 without any.
fn percentile(values: &[u64], share: f64) -> u64 {
    let last = values.len().saturating_sub(1);
    values.get((share * last as f64).round() as usize).copied().unwrap_or_default()
}

/// To what can be told apart.
fn round(value: f64) -> f64 {
    (value * 1000.0).round() / 1000.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_of_the_sorted_values() {
        let values: Vec<u64> = (0..=1000).collect();
        assert_eq!([0.5, 0.99, 0.999].map(|share| percentile(&values, share)), [500, 990, 999]);
        assert_eq!(percentile(&[7], 0.999), 7);
        assert_eq!(percentile(&[], 0.5), 0);
    }

    #[test]
    fn a_row_has_the_medians_of_the_repetitions() {
        let mut times = Times::default();
        for (rate, at) in [(10.0, 3.0), (1000.0, 1.0), (20.0, 2.0)] {
            times.push(rate, [at, at * 2.0, at * 3.0]);
        }
        let row = times.row(What::Symmetric, "a", "b", 1000);
        assert_eq!((row.per_s, row.gbps), (20.0, Some(0.0)));
        assert_eq!((row.p50_us, row.p99_us, row.p999_us, row.repetitions), (2.0, 4.0, 6.0, 3));
    }
}
