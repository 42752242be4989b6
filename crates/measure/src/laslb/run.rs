//! All points, all draws, on all cores.
use std::sync::PoisonError;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use nf::Hash;

use crate::MeasureError;
use crate::laslb::arrivals::Arrivals;
use crate::laslb::experiment::Point;
use crate::laslb::outcome::Outcome;
use crate::laslb::row::{LaslbRow, rows};
use crate::laslb::service::{Function, ServiceTimes};
use crate::laslb::simulation::Simulation;

/// How much is run.
#[derive(Debug, Clone)]
pub struct Options {
    /// Fewer loads.
    pub quick: bool,
    /// Draws of addresses for every point.
    pub draws: u32,
    /// Simulated milliseconds before anything is counted.
    pub warm_up_ms: u64,
    /// Simulated milliseconds that are counted.
    pub measured_ms: u64,
    /// Recorded service times instead of the model's.
    pub service: Option<Arc<ServiceTimes>>,
    /// By what packets fall on buckets, and on processors with RSS: both directions of a flow
    /// on one, or each by itself.
    pub hash: Hash,
}

impl Options {
    /// 100 draws of a second and more, or few short ones.
    #[must_use]
    pub const fn new(quick: bool) -> Self {
        if quick {
            Self {
                quick,
                draws: 4,
                warm_up_ms: 250,
                measured_ms: 250,
                service: None,
                hash: Hash::Symmetric,
            }
        } else {
            Self {
                quick,
                draws: 100,
                warm_up_ms: 300,
                measured_ms: 500,
                service: None,
                hash: Hash::Symmetric,
            }
        }
    }
}

/// The outcomes of one draw at one point, by system.
type Draw = Result<Vec<Outcome>, MeasureError>;

/// Runs everything. `progress` is told how many draws are done and how many there are.
///
/// # Errors
/// [`MeasureError`] of the traffic, or of a thread that failed.
pub fn run(
    options: &Options,
    progress: &mut impl FnMut(usize, usize),
) -> Result<Vec<LaslbRow>, MeasureError> {
    let inspection = options.service.clone().map_or(Function::Inspection, Function::Recorded);
    let points = Point::all(options.quick, &inspection);
    let mut all = Vec::new();
    for (number, point) in points.iter().enumerate() {
        progress(number, points.len());
        let draws = draws(point, options)?;
        for (at, &system) in point.systems.iter().enumerate() {
            let mut outcomes = Vec::new();
            for draw in &mut *draws.lock().unwrap_or_else(PoisonError::into_inner) {
                let Some(outcome) = draw.get_mut(at).and_then(Option::take) else { continue };
                outcomes.push(outcome);
            }
            all.extend(rows(point, system, options.hash, &outcomes)?);
        }
    }
    progress(points.len(), points.len());
    Ok(all)
}

/// All draws of a point, in no order.
fn draws(
    point: &Point,
    options: &Options,
) -> Result<Mutex<Vec<Vec<Option<Outcome>>>>, MeasureError> {
    let next = AtomicUsize::new(0);
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let found = Mutex::new(Vec::new());
    let work = || -> Result<(), MeasureError> {
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed) as u64 + 1;
            if seed > u64::from(options.draws) {
                return Ok(());
            }
            let outcomes = draw(point, options, seed)?.into_iter().map(Some).collect();
            found.lock().unwrap_or_else(PoisonError::into_inner).push(outcomes);
        }
    };
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..cores).map(|_| scope.spawn(work)).collect();
        threads.into_iter().try_for_each(|thread| {
            thread.join().map_err(|_| MeasureError::ThreadFailed("simulation"))?
        })
    })?;
    Ok(found)
}

fn draw(point: &Point, options: &Options, seed: u64) -> Draw {
    let warm_up = options.warm_up_ms * 1_000_000;
    let length = warm_up + options.measured_ms * 1_000_000;
    let arrivals =
        Arrivals::draw(point.set, point.gbps, length, &point.function, options.hash, seed)?;
    let systems = point.systems.iter();
    systems.map(|system| Simulation::run(&arrivals, *system, warm_up, length)).collect()
}
