//! Which ports' redirection tables are balanced, decided before the workers start.
use std::sync::Arc;

use config::{Balance, Config};

use super::census::BucketCounts;
use super::mover::MovedPort;
use super::table;
use crate::device::Device;

/// The ports whose entries move, and what can be said of all.
#[derive(Default)]
pub(crate) struct Balancing {
    pub(crate) ports: Vec<MovedPort>,
    /// By port of `ports`, what each worker counts.
    counts: Vec<Vec<Arc<BucketCounts>>>,
    pub(crate) reasons: Vec<String>,
    /// Whether there are several workers, and their loads are to be even.
    pub(crate) is_wanted: bool,
}

impl Balancing {
    /// Asks every port, unless there is nothing to balance. To be called before the
    /// emulated NICs' threads are made and before there are rules.
    pub(crate) fn of(config: &Config, devices: &[Device]) -> Self {
        let mut balancing = Self::default();
        let workers = config.workers.count;
        if workers < 2 || config.workers.balance == Balance::Off {
            return balancing;
        }
        balancing.is_wanted = true;
        for (number, device) in devices.iter().enumerate() {
            let name = device.name.clone();
            let (table, why) = table::probe(device, workers);
            match &table {
                Some(_) => tracing::info!(port = name, "workers are balanced: {why}"),
                None => tracing::warn!(port = name, "workers are not balanced: {why}"),
            }
            balancing.reasons.push(format!("{name}: {why}"));
            let Some((table, map)) = table else { continue };
            let hash = table::hash(device);
            let counts = (0..workers).map(|_| Arc::new(BucketCounts::new(map.len(), hash.clone())));
            balancing.counts.push(counts.collect());
            let ends = device.emulated.as_ref().and_then(|emulated| emulated.ends.as_ref());
            let sent = ends.map(|ends| Arc::clone(&ends.sent));
            balancing.ports.push(MovedPort { number, name, table, map, sent });
        }
        balancing
    }

    /// What `worker` counts at each of the ports.
    pub(crate) fn counts_of(&self, worker: usize) -> Vec<Arc<BucketCounts>> {
        self.counts.iter().filter_map(|counts| counts.get(worker).map(Arc::clone)).collect()
    }

    /// What `worker` counts at port `port`.
    pub(crate) fn counts(&self, port: usize, worker: usize) -> Option<Arc<BucketCounts>> {
        let at = self.ports.iter().position(|own| own.number == port)?;
        self.counts.get(at)?.get(worker).map(Arc::clone)
    }
}
