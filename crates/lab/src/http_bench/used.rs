//! The processor time that a system has used.

/// Processor time in nanoseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct Used {
    /// All of it.
    pub(super) all_ns: f64,
    /// The kernel's part of it, in system calls.
    pub(super) system_ns: f64,
}

impl Used {
    /// Of a process, by its times of the user and of the system before and after.
    #[allow(clippy::cast_precision_loss)]
    pub(super) fn of_process((old, new): ([u64; 2], [u64; 2])) -> Self {
        let [user, system] = between(old, new);
        Self { all_ns: (user + system) as f64, system_ns: system as f64 }
    }

    /// Of a worker that polls without end: it has run for `run_ns`, and was busy for `share`
    /// of that. Its times say which part is the kernel's, polls for nothing included.
    #[allow(clippy::cast_precision_loss)]
    pub(super) fn of_worker(share: f64, run_ns: u64, (old, new): ([u64; 2], [u64; 2])) -> Self {
        let [user, system] = between(old, new);
        let part = system as f64 / (user + system).max(1) as f64;
        let all_ns = share * run_ns as f64;
        Self { all_ns, system_ns: all_ns * part }
    }
}

fn between(old: [u64; 2], new: [u64; 2]) -> [u64; 2] {
    let ([a, b], [c, d]) = (old, new);
    [c.saturating_sub(a), d.saturating_sub(b)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_worker_is_charged_with_its_busy_part_of_the_time_that_it_had() {
        let used = Used::of_worker(0.25, 1_000, ([5, 5], [605, 405]));
        assert!((used.all_ns - 250.0).abs() < 1e-9 && (used.system_ns - 100.0).abs() < 1e-9);
        let used = Used::of_process(([10, 20], [40, 90]));
        assert_eq!(used, Used { all_ns: 100.0, system_ns: 70.0 });
        assert_eq!(Used::of_worker(0.5, 0, ([0; 2], [0; 2])), Used::default());
    }
}
