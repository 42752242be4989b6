//! How thoroughly is measured.
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use crate::evaluation::part::Part;
use crate::systems::system::System;

/// Told after every measured point: which part of the run it is of, and which
/// share of that part is done.
pub type Progress = Arc<dyn Fn(Part, f64) + Send + Sync>;

/// What is asked for.
#[derive(Clone)]
pub struct Options {
    /// Fewer points and shorter ones, to see whether everything works.
    pub quick: bool,
    /// How often every point is measured; the paper's 30. Repetitions go round
    /// all systems, so that drift hits all alike.
    pub repetitions: u32,
    /// Whom to tell.
    pub progress: Option<Progress>,
    /// Milliseconds of one measured point.
    pub point_ms: u64,
    /// After this no point is measured again: repetitions that were asked for
    /// are left out. Every point is measured once in any case.
    pub deadline: Option<Instant>,
    /// Once this is set, no point is begun: what has been measured is all.
    pub stop: Option<Arc<AtomicBool>>,
    /// What is compared.
    pub systems: Vec<System>,
    /// Numbers of connections that are measured, of those that the figure has;
    /// empty: all.
    pub connections: Vec<u32>,
    /// Source and load balancer take turns on one core: for the cost of the
    /// code alone, without traffic between caches. Saturation runs only.
    pub alone: bool,
    /// What was measured while others had the cores counts, too: says nothing of
    /// speed, but gives every point on any machine.
    pub busy: bool,
    /// Every queue is asked in every round, as in the paper's loop: the queues
    /// of HNLB's workers rest under load if they bring little.
    pub strict_round_robin: bool,
    /// The processors of source and load balancer; `None`: the first two.
    pub cores: Option<[usize; 2]>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            quick: false,
            repetitions: 30,
            progress: None,
            point_ms: 150,
            deadline: None,
            stop: None,
            systems: System::ALL.to_vec(),
            connections: Vec::new(),
            alone: false,
            busy: false,
            strict_round_robin: false,
            cores: None,
        }
    }
}

impl Options {
    /// Says that `done` of the `part` is done.
    pub(crate) fn tell(&self, part: Part, done: usize, all: usize) {
        if let Some(progress) = &self.progress {
            progress(part, done as f64 / all.max(1) as f64);
        }
    }

    /// Whether nothing more should be measured.
    #[must_use]
    pub fn stopped(&self) -> bool {
        self.stop.as_ref().is_some_and(|stop| stop.load(Ordering::Relaxed))
    }

    /// Whether `repetition` should be left out: no time is left for it, and
    /// every point has been measured; or nothing more should be measured.
    pub(crate) fn ended(&self, repetition: u32) -> bool {
        self.stopped() || (repetition > 0 && self.is_late())
    }

    /// Whether the time is over.
    pub(crate) fn is_late(&self) -> bool {
        self.deadline.is_some_and(|end| Instant::now() >= end)
    }

    /// When the first of `left` equal pieces of the work should be done.
    pub(crate) fn until(&self, left: usize) -> Option<Instant> {
        let now = Instant::now();
        self.deadline.map(|end| now + end.saturating_duration_since(now) / left.max(1) as u32)
    }
}
