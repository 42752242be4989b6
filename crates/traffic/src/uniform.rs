//! All flows equally likely.

use crate::{Rng, TrafficError};

/// Flow indices from 0 to `flows` - 1, each as likely as the others.
#[derive(Debug, Clone)]
pub struct Uniform {
    flows: u32,
    rng: Rng,
}

impl Uniform {
    /// Over so many flows.
    ///
    /// # Errors
    /// [`TrafficError::NoFlows`] for none.
    pub fn new(flows: u32, seed: u64) -> Result<Self, TrafficError> {
        if flows == 0 {
            return Err(TrafficError::NoFlows);
        }
        Ok(Self { flows, rng: Rng::new(seed) })
    }
}

impl Iterator for Uniform {
    type Item = u32;

    #[inline]
    fn next(&mut self) -> Option<u32> {
        Some(self.rng.below(u64::from(self.flows)) as u32)
    }
}
