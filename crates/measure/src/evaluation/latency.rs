//! The latency through the load balancer.
use crate::report::LatencyRow;
use hdrhistogram::Histogram;

use crate::error::MeasureError;
use crate::evaluation::contest::Contest;
use crate::evaluation::figure::Setting;
use crate::evaluation::options::Options;
use crate::evaluation::part::Part;
use crate::systems::system::System;
use crate::testbed::measured::Measured;
use crate::testbed::ports::Testbed;

/// Rates, as parts of what the system can.
pub(crate) const SHARES: [f64; 6] = [0.1, 0.25, 0.5, 0.75, 0.9, 0.95];
/// Connections, all of which fit into the NIC.
const CONNECTIONS: u32 = 1000;

/// Those of `systems` whose latency is measured.
pub(crate) fn systems(systems: &[System]) -> Vec<System> {
    systems.iter().copied().filter(|system| *system != System::HnlbShared).collect()
}

impl Testbed {
    /// Latencies at parts of each system's own maximum rate.
    ///
    /// # Errors
    /// Something needed is missing; see [`MeasureError`].
    pub fn latency(&mut self, options: &Options) -> Result<Vec<LatencyRow>, MeasureError> {
        // The packets' way from core to core is what is measured.
        let options = Options { alone: false, ..options.clone() };
        let connections = options.connections.first().copied().unwrap_or(CONNECTIONS);
        let mut contest = Contest::build(Setting::of(connections, 64), &systems(&options.systems))?;
        let repetitions = options.repetitions.max(1) as usize;
        let count = contest.contestants.len();
        let mut rows = Vec::new();
        for repetition in (0..repetitions).take_while(|&n| !options.ended(n as u32)) {
            for at in (0..count).take_while(|_| !options.stopped()) {
                let Some(best) = self.point(&mut contest, at, None, &options)? else { continue };
                let most = best.most();
                for share in SHARES {
                    let offered = Some((most * share, true));
                    let Some(measured) = self.point(&mut contest, at, offered, &options)? else {
                        continue;
                    };
                    let system = contest.contestants.get(at).map_or("", |e| e.system.name());
                    let row = row(&measured, system, contest.connections, share);
                    rows.extend(row.map(|row| LatencyRow { repetition: repetition as u32, ..row }));
                }
                options.tell(Part::Latency, repetition * count + at + 1, repetitions * count);
            }
        }
        options.tell(Part::Latency, 1, 1);
        Ok(rows)
    }
}

/// `None` if no packet's time was taken.
fn row(measured: &Measured, system: &str, connections: u32, share: f64) -> Option<LatencyRow> {
    let times = measured.sent.latency.as_ref().filter(|times| !times.is_empty())?;
    let per_us = dpdk::cycles_per_second() as f64 / 1e6;
    let [p50_us, p90_us, p99_us, p999_us, p9999_us] = percentiles(times, per_us);
    Some(LatencyRow {
        figure: "latency".to_owned(),
        system: system.to_owned(),
        connections: connections.into(),
        rate_mpps: measured.offered_mpps()?,
        share,
        p50_us,
        p90_us,
        p99_us,
        p999_us,
        p9999_us,
        packets: times.len(),
        loss: measured.loss(),
        stolen: measured.stolen(),
        repetition: 0,
    })
}

/// The percentiles 50, 90, 99, 99.9 and 99.99 in microseconds.
fn percentiles(times: &Histogram<u64>, cycles_per_us: f64) -> [f64; 5] {
    [0.5, 0.9, 0.99, 0.999, 0.9999]
        .map(|quantile| times.value_at_quantile(quantile) as f64 / cycles_per_us)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_those_of_the_sorted_times() {
        let mut times = Histogram::<u64>::new_with_bounds(1, 1 << 40, 3).unwrap();
        // 1 to 100,000 cycles, in no order; 10 cycles are a microsecond.
        for n in 0..100_000_u64 {
            times.record(n * 7919 % 100_000 + 1).unwrap();
        }
        let wanted = [5_000.0, 9_000.0, 9_900.0, 9_990.0, 9_999.0];
        for (found, wanted) in percentiles(&times, 10.0).into_iter().zip(wanted) {
            assert!((found / wanted - 1.0).abs() < 0.002, "{found} {wanted}");
        }
    }
}
