//! What one run, or all runs of a point, have shown.
use hdrhistogram::Histogram;

use crate::MeasureError;
use crate::laslb::system::CPUS;

/// Longest latency that is told apart: 1 s.
const LONGEST_NS: u64 = 1_000_000_000;

/// Counts of the measured part of a run.
#[derive(Debug)]
pub(crate) struct Outcome {
    /// Nanoseconds of every packet but probes.
    pub(crate) latency: Histogram<u64>,
    /// Nanoseconds of probes.
    pub(crate) probes: Histogram<u64>,
    pub(crate) bytes: u64,
    pub(crate) dropped: u64,
    pub(crate) out_of_order: u64,
    pub(crate) moves: u64,
    /// Nanoseconds of work, and packets, by processor.
    pub(crate) busy_ns: [u64; CPUS as usize],
    pub(crate) packets: [u64; CPUS as usize],
    pub(crate) length_ns: u64,
}

impl Outcome {
    pub(crate) fn new(length_ns: u64) -> Result<Self, MeasureError> {
        let histogram = || {
            Histogram::new_with_bounds(1, LONGEST_NS, 2)
                .map_err(|error| MeasureError::Histogram(error.to_string()))
        };
        Ok(Self {
            latency: histogram()?,
            probes: histogram()?,
            bytes: 0,
            dropped: 0,
            out_of_order: 0,
            moves: 0,
            busy_ns: [0; CPUS as usize],
            packets: [0; CPUS as usize],
            length_ns,
        })
    }

    /// Percent of the time, or of the packets, by processor.
    pub(crate) fn loads(&self) -> [f64; CPUS as usize] {
        self.busy_ns.map(|busy| 100.0 * busy as f64 / self.length_ns as f64)
    }

    pub(crate) fn shares(&self) -> [f64; CPUS as usize] {
        let all: u64 = self.packets.iter().sum();
        self.packets.map(|packets| 100.0 * packets as f64 / all.max(1) as f64)
    }
}
