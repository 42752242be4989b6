//! How thoroughly is measured.
use std::sync::Arc;

use crate::system::System;

/// Told after every measured point: how many are done, and of how many.
pub type Progress = Arc<dyn Fn(usize, usize) + Send + Sync>;

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
    /// What is compared.
    pub systems: Vec<System>,
    /// Numbers of connections that are measured, of those that the figure has;
    /// empty: all.
    pub connections: Vec<u32>,
    /// Source and load balancer take turns on one core: for the cost of the
    /// code alone, without traffic between caches. Saturation runs only.
    pub alone: bool,
    /// The processors of source and load balancer; `None`: the first two.
    pub cores: Option<[usize; 2]>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            quick: false,
            repetitions: 30,
            progress: None,
            systems: System::ALL.to_vec(),
            connections: Vec::new(),
            alone: false,
            cores: None,
        }
    }
}

impl Options {
    /// The length of one measured point in milliseconds.
    pub(crate) const fn point_ms(&self) -> u64 {
        if self.quick { 60 } else { 150 }
    }
}
