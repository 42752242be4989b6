//! Who gets new connections: backends drained, restored, down and up again.
use std::net::IpAddr;

use super::compile::{eligible, maglev, revision};
use super::standing::{self, Health};
use super::{Backend, Service};
use crate::{Classes, Moved};

impl Service {
    /// Whether a backend at `address` has a weight in the configuration.
    pub(crate) fn can_drain(&self, address: IpAddr) -> bool {
        let mut all = self.backends.iter().zip(&self.standings);
        all.any(|(own, standing)| own.address == address && standing.can_drain())
    }

    /// Drains the backends at `address`, or gives them their weights back; what
    /// that moves, or `None` if it changes nothing.
    pub(crate) fn steer(&mut self, address: IpAddr, drain: bool) -> Option<Moved> {
        let mut changed = false;
        for (own, standing) in self.backends.iter().zip(&mut self.standings) {
            if own.address == address && standing.can_drain() && standing.drained != drain {
                (standing.drained, changed) = (drain, true);
            }
        }
        changed.then(|| self.weigh())
    }

    /// Gives each backend the health that `health` says; what that moves, or `None` if
    /// it changes nothing.
    pub(crate) fn set_health(&mut self, health: &dyn Fn(&Backend) -> Health) -> Option<Moved> {
        let mut changed = false;
        for (own, standing) in self.backends.iter().zip(&mut self.standings) {
            let health = health(own);
            changed |= standing.health != health;
            standing.health = health;
        }
        changed.then(|| self.weigh())
    }

    /// Brings weights, and all that follows from them, up to the standings; what that
    /// moves of a stateless service.
    fn weigh(&mut self) -> Moved {
        let weights = standing::weights(&self.standings, self.failover.all_down);
        if let Some(classes) = &mut self.classes {
            return steer_classes(classes, &self.backends, &weights);
        }
        if self.backends.iter().map(|own| own.weight).eq(weights.iter().copied()) {
            return Moved::default();
        }
        self.backends.iter_mut().zip(weights).for_each(|(own, weight)| own.weight = weight);
        self.eligible = eligible(&self.backends);
        self.maglev = maglev(&self.backends, self.maglev_size);
        if let Some(routing) = &mut self.routing {
            routing.weigh(&self.backends, self.scheduler, self.maglev_size);
        }
        self.revision = revision(self.scheduler, &self.backends);
        Moved::default()
    }
}

/// Drains and restores backends of a stateless service until those with a weight in
/// `weights` serve.
fn steer_classes(classes: &mut Classes, backends: &[Backend], weights: &[u16]) -> Moved {
    let mut all: Option<Moved> = None;
    for (own, weight) in backends.iter().zip(weights) {
        let step = if *weight == 0 { classes.drain(own.id) } else { classes.restore(own.id) };
        let Some(step) = step else { continue };
        all = Some(match all {
            None => step,
            Some(so_far) => {
                Moved { share: so_far.share + step.share, before: so_far.before, after: step.after }
            }
        });
    }
    all.unwrap_or_default()
}
