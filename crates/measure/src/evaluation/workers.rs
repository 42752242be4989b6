//! The throughput of several workers that share the table of connections, by
//! packet size: figure 6 of the LB-NIC paper, on as many cores as there are.
use flow::Direction;

use crate::error::MeasureError;
use crate::evaluation::contest::Subjects;
use crate::evaluation::options::Options;
use crate::evaluation::part::Part;
use crate::report::WorkersRow;
use crate::systems::balancer::Balancer;
use crate::systems::system::System;
use crate::testbed::frames::{FCS, FrameSpec};
use crate::testbed::measured::Measured;
use crate::testbed::ports::{Testbed, WORKERS};
use crate::testbed::run::Point;
use crate::testbed::scenario::{Plan, Scenario};
use crate::testbed::sequence::Traffic;
use crate::testbed::source::Pace;

/// Frame sizes of the LB-NIC paper's figure.
const SIZES: [u16; 5] = [64, 128, 256, 512, 1024];
/// Connections, spread over the workers as RSS would.
const CONNECTIONS: u32 = 1 << 16;
/// The software load balancers: their table against `rte_hash`.
const SYSTEMS: [System; 2] = [System::Slb, System::SlbBulk];

impl Testbed {
    /// The throughput of 1 and 2 workers.
    ///
    /// # Errors
    /// Something needed is missing; see [`MeasureError`].
    pub(crate) fn workers(&mut self, options: &Options) -> Result<Vec<WorkersRow>, MeasureError> {
        let connections = options.connections.first().copied().unwrap_or(CONNECTIONS);
        let plan = Plan::of(connections, 10, flow::Encoding::Off);
        let scenario = Scenario::build(plan)?;
        let mut subjects = Subjects::of(&scenario, Traffic::Uniform);
        let systems = SYSTEMS.into_iter().filter(|system| options.systems.contains(system));
        let systems: Vec<System> = systems.collect();
        let sizes = if options.quick { &SIZES[..1] } else { &SIZES };
        let repetitions = options.repetitions.max(1);
        let all = repetitions as usize * sizes.len() * systems.len() * WORKERS;
        let mut rows = Vec::new();
        for repetition in (0..repetitions).take_while(|&n| !options.ended(n)) {
            for &size in sizes {
                let specs = specs(&scenario, size)?;
                for (&system, count) in
                    systems.iter().flat_map(|system| (1..=WORKERS).map(move |n| (system, n)))
                {
                    if options.stopped() {
                        return Ok(rows);
                    }
                    let measured = self.several(&mut subjects, system, &specs[..count], options)?;
                    // A worker that had no core while it should is in no row.
                    if measured.iter().all(|worker| worker.is_usable(true)) {
                        rows.push(row(system, connections, size, &measured, repetition));
                    }
                    options.tell(Part::Workers, rows.len(), all);
                }
            }
        }
        Ok(rows)
    }

    /// A worker for each of `specs`.
    fn several(
        &mut self,
        subjects: &mut Subjects<'_>,
        system: System,
        specs: &[Vec<FrameSpec>],
        options: &Options,
    ) -> Result<Vec<Measured>, MeasureError> {
        let mut workers: Vec<Box<dyn Balancer>> =
            (0..specs.len()).map(|at| subjects.make(system, at)).collect::<Result<_, _>>()?;
        let templates = subjects.templates();
        let mut points: Vec<(&mut dyn Balancer, Point<'_, '_>)> = Vec::new();
        for (worker, specs) in workers.iter_mut().zip(specs) {
            let longest = specs.first().map_or(0, FrameSpec::len);
            let point = Point {
                specs,
                templates,
                longest,
                queues: [0..1, 0..0],
                pace: Pace::Closed(0),
                between_bursts: None,
            };
            points.push((&mut **worker, point));
        }
        self.measure_alone(points, options)
    }
}

/// What each of all workers gets: connections by turns.
fn specs(scenario: &Scenario, size: u16) -> Result<[Vec<FrameSpec>; WORKERS], MeasureError> {
    let mut all: [Vec<FrameSpec>; WORKERS] = Default::default();
    for draw in Traffic::Uniform.sequence(scenario.open(), size, 1)?.draws {
        let spec = scenario.spec(draw.connection, Direction::Forward, size);
        let own = all.get_mut(draw.connection as usize % WORKERS);
        if let (Some((spec, _)), Some(own)) = (spec, own) {
            own.push(spec);
        }
    }
    Ok(all)
}

fn row(
    system: System,
    connections: u32,
    packet_size: u16,
    measured: &[Measured],
    repetition: u32,
) -> WorkersRow {
    let mpps: Option<f64> = measured.iter().map(Measured::mpps).sum();
    let bits = f64::from(packet_size.max(FCS)) * 8.0;
    WorkersRow {
        figure: "workers".to_owned(),
        system: system.name().to_owned(),
        workers: measured.len() as u32,
        connections: connections.into(),
        packet_size,
        mpps,
        gbit_per_second: mpps.map(|mpps| mpps * bits / 1e3),
        stolen: measured.iter().map(Measured::stolen).fold(0.0, f64::max),
        repetition,
    }
}
