//! The load of each bucket: its share of its worker's util+.
use status::LoopReading;

/// The scale of loads: a worker with util+ of 1 has so much.
const FULL: f64 = 1_000_000.0;

/// What one worker counted in a while.
#[derive(Clone, Debug, Default)]
pub(crate) struct WorkerSample {
    /// util+, from 0 to 1.
    pub(crate) util_plus: f64,
    /// Packets received.
    pub(crate) packets: u64,
    /// Sampled packets of each bucket of all ports.
    pub(crate) buckets: Vec<u32>,
    /// Sampled packets of no bucket.
    pub(crate) fixed: u32,
}

impl WorkerSample {
    /// Adds the load of each bucket to `loads`, and gives that of no bucket.
    pub(crate) fn spread(&self, loads: &mut [u32]) -> u32 {
        let buckets: u64 = self.buckets.iter().map(|count| u64::from(*count)).sum();
        let all = buckets + u64::from(self.fixed);
        let of = |count: u32| match all {
            0 => 0,
            all => (self.util_plus * FULL * f64::from(count) / all as f64) as u32,
        };
        for (load, count) in loads.iter_mut().zip(&self.buckets) {
            *load = load.saturating_add(of(*count));
        }
        of(self.fixed)
    }
}

/// The readings of one worker's loop from one sample to the next.
#[derive(Debug, Default)]
pub(crate) struct Readings {
    before: LoopReading,
}

impl Readings {
    /// util+ and the packets received since the last call.
    pub(crate) fn next(&mut self, now: LoopReading, queues: usize, burst: usize) -> (f64, u64) {
        let since = now.since(self.before);
        self.before = now;
        (since.util_plus(queues, burst), since.packets)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_workers_load_is_divided_by_packets() {
        let sample =
            WorkerSample { util_plus: 0.5, packets: 100, buckets: vec![30, 0, 10], fixed: 60 };
        let mut loads = [0, 7, 0];
        assert_eq!(sample.spread(&mut loads), 300_000);
        assert_eq!(loads, [150_000, 7, 50_000]);
        assert_eq!(WorkerSample::default().spread(&mut loads), 0, "nothing was counted");
    }
}
