//! What balancing brings two workers: twenty heavy connections whose RSS buckets are all
//! one worker's.
use balance::{Kind, Snapshot};
use flow::Direction;
use traffic::Rng;

use crate::error::MeasureError;
use crate::evaluation::contest::Subjects;
use crate::evaluation::options::Options;
use crate::report::WorkersRow;
use crate::systems::balancer::Balancer;
use crate::systems::system::System;
use crate::testbed::frames::FrameSpec;
use crate::testbed::measured::Measured;
use crate::testbed::ports::{Testbed, WORKERS};
use crate::testbed::run::Point;
use crate::testbed::scenario::{Plan, Scenario};
use crate::testbed::sequence::Traffic;
use crate::testbed::source::Pace;

const ELEPHANTS: u32 = 20;
/// Entries of an X550's redirection table, which name the workers in turn at the start.
const BUCKETS: u16 = 128;
/// The frames' size in bytes.
const SIZE: u16 = 64;
/// Packets of each connection from one look of the algorithm to the next.
const PACKETS: u32 = 1000;
/// Looks of the algorithm, and the time between two in nanoseconds: two seconds.
const LOOKS: u64 = 200;
const LOOK_NS: u64 = 10_000_000;
/// Draws of the connections' buckets are seeded by this and the repetition.
const SEED: u64 = 12;

impl Testbed {
    /// The throughput of two workers with balancing off and on.
    ///
    /// # Errors
    /// Something needed is missing; see [`MeasureError`].
    pub(crate) fn elephants(&mut self, options: &Options) -> Result<Vec<WorkersRow>, MeasureError> {
        let scenario = Scenario::build(Plan::of(ELEPHANTS, 10, flow::Encoding::Off))?;
        let mut subjects = Subjects::of(&scenario, Traffic::Uniform);
        let mut rows = Vec::new();
        for repetition in (0..options.repetitions.max(1)).take_while(|&n| !options.ended(n)) {
            let buckets = draw(repetition);
            for (system, map) in
                [("balance-off", at_the_start()), ("balance-on", balanced(&buckets))]
            {
                let measured = self.pair(&scenario, &mut subjects, &buckets, &map, options)?;
                let Some((mpps, stolen)) = measured else { continue };
                rows.push(row(system, mpps, stolen, repetition));
            }
        }
        Ok(rows)
    }

    /// The throughput of the pair with this map, and what others took of the cores.
    /// `None` if a worker had no core while it should. The workers are measured in turn,
    /// so that both have the whole machine.
    fn pair(
        &mut self,
        scenario: &Scenario,
        subjects: &mut Subjects<'_>,
        buckets: &[u16],
        map: &[u16],
        options: &Options,
    ) -> Result<Option<(f64, f64)>, MeasureError> {
        let (mut pair, mut stolen) = (f64::INFINITY, 0.0_f64);
        for worker in 0..WORKERS {
            let mut specs: Vec<FrameSpec> = Vec::new();
            for (connection, bucket) in (0_u32..).zip(buckets) {
                let is_own = map.get(usize::from(*bucket)).copied() == Some(worker as u16);
                let spec = scenario.spec(connection, Direction::Forward, SIZE);
                specs.extend(spec.filter(|_| is_own).map(|(spec, _)| spec));
            }
            if specs.is_empty() {
                continue;
            }
            let share = specs.len() as f64 / buckets.len() as f64;
            let measured = self.alone(subjects, worker, &specs, options)?;
            let mpps = measured.as_ref().filter(|own| own.is_usable(true)).and_then(Measured::mpps);
            let (Some(mpps), Some(measured)) = (mpps, measured) else { return Ok(None) };
            // The pair takes no more than its busier worker can of its share.
            pair = pair.min(mpps / share);
            stolen = stolen.max(measured.stolen());
        }
        Ok(pair.is_finite().then_some((pair, stolen)))
    }

    fn alone(
        &mut self,
        subjects: &mut Subjects<'_>,
        worker: usize,
        specs: &[FrameSpec],
        options: &Options,
    ) -> Result<Option<Measured>, MeasureError> {
        let mut subject: Box<dyn Balancer> = subjects.make(System::Slb, worker)?;
        let point = Point {
            specs,
            templates: subjects.templates(),
            longest: specs.first().map_or(0, FrameSpec::len),
            queues: [0..1, 0..0],
            pace: Pace::Closed(0),
            between_bursts: None,
        };
        Ok(self.measure_alone(vec![(&mut *subject, point)], options)?.pop())
    }
}

/// The bucket of each connection: any of worker 0's.
fn draw(repetition: u32) -> Vec<u16> {
    let mut rng = Rng::new(SEED + u64::from(repetition));
    let mut bucket = || rng.below(u64::from(BUCKETS) / WORKERS as u64) as u16 * WORKERS as u16;
    (0..ELEPHANTS).map(|_| bucket()).collect()
}

/// The worker of each bucket.
fn at_the_start() -> Vec<u16> {
    (0..BUCKETS).map(|bucket| bucket % WORKERS as u16).collect()
}

/// The worker of each bucket after the algorithm has had its time.
fn balanced(buckets: &[u16]) -> Vec<u16> {
    let mut map = at_the_start();
    let mut packets = vec![0; map.len()];
    for bucket in buckets {
        if let Some(packets) = packets.get_mut(usize::from(*bucket)) {
            *packets += PACKETS;
        }
    }
    let Some(mut algorithm) = Kind::Even.algorithm() else { return map };
    for look in 1..=LOOKS {
        let mut moves = Vec::new();
        let seen = Snapshot {
            now_ns: look * LOOK_NS,
            cpus: WORKERS,
            map: &map,
            latency: &[],
            packets: &packets,
            fixed: &[],
            busy: &[],
        };
        algorithm.decide(&seen, &mut moves);
        for moved in moves {
            if let Some(worker) = map.get_mut(usize::from(moved.bucket)) {
                *worker = moved.to;
            }
        }
    }
    map
}

fn row(system: &str, mpps: f64, stolen: f64, repetition: u32) -> WorkersRow {
    WorkersRow {
        figure: "workers".to_owned(),
        system: system.to_owned(),
        workers: WORKERS as u32,
        connections: ELEPHANTS.into(),
        packet_size: SIZE,
        mpps: Some(mpps),
        gbit_per_second: Some(mpps * f64::from(SIZE) * 8.0 / 1e3),
        stolen,
        repetition,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn balancing_divides_what_one_worker_had() {
        for repetition in 0..50 {
            let buckets = draw(repetition);
            let of = |map: &[u16], worker| {
                buckets.iter().filter(|bucket| map[usize::from(**bucket)] == worker).count()
            };
            assert_eq!(of(&at_the_start(), 0), ELEPHANTS as usize);
            let busier = (0..2).map(|worker| of(&balanced(&buckets), worker)).max();
            assert!(busier <= Some(12), "{busier:?} of {ELEPHANTS}");
        }
    }
}
