//! What the balancing thread tells of itself.
use std::sync::atomic::{AtomicU64, Ordering};

use balance::HandoverTotals;
use state::{CounterSet, Metric, counters};
use status::BalanceStatus;

counters! {
    /// What became of moves.
    pub(crate) enum BalanceCounter {
        Info {
            Moved "moved" "Entries of redirection tables that were given to another worker.",
            Late "late" "Moves whose old worker did not empty its queue in time, so that packets may have been overtaken.",
            Refused "refused" "Moves that a driver refused.",
            GivenUp "given_up" "Moves that were given up since the new worker did not answer in time.",
        }
    }
}

/// Written by the balancing thread, read by the reporter.
#[derive(Default)]
pub(crate) struct BalanceBoard {
    is_on: bool,
    /// What can be said of each port.
    ports: Vec<String>,
    counters: CounterSet<BalanceCounter>,
    /// Entries by worker.
    buckets: Vec<AtomicU64>,
    longest_ns: AtomicU64,
}

impl BalanceBoard {
    /// For so many workers.
    pub(crate) fn new(is_on: bool, ports: Vec<String>, workers: usize) -> Self {
        let buckets = (0..workers).map(|_| AtomicU64::new(0)).collect();
        Self { is_on, ports, buckets, ..Self::default() }
    }

    /// Entries by worker are these.
    pub(crate) fn tell_map(&self, map: &[u16]) {
        for (worker, buckets) in self.buckets.iter().enumerate() {
            let own = map.iter().filter(|of| usize::from(**of) == worker).count();
            buckets.store(own as u64, Ordering::Relaxed);
        }
    }

    /// The moves so far.
    pub(crate) fn tell_totals(&self, now: HandoverTotals) {
        let told = [
            (BalanceCounter::Moved, now.moved),
            (BalanceCounter::Late, now.late),
            (BalanceCounter::Refused, now.refused),
            (BalanceCounter::GivenUp, now.given_up),
        ];
        for (counter, value) in told {
            self.counters.add(counter, value - self.counters.get(counter));
        }
        self.longest_ns.store(now.longest_ns, Ordering::Relaxed);
    }

    /// Entries that name the queues of `worker`.
    pub(crate) fn buckets(&self, worker: usize) -> u64 {
        self.buckets.get(worker).map_or(0, |buckets| buckets.load(Ordering::Relaxed))
    }

    /// All of it.
    pub(crate) fn status(&self) -> BalanceStatus {
        let named = |metric: Metric| (metric.name.to_owned(), metric.value);
        BalanceStatus {
            mode: if self.is_on { "load" } else { "off" }.to_owned(),
            ports: self.ports.clone(),
            counters: self.counters.metrics().map(named).collect(),
            longest_wait_us: self.longest_ns.load(Ordering::Relaxed) / 1000,
        }
    }
}
