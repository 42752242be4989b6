//! The processor's cycle counter as a clock.
use dpdk::eal;

/// Milliseconds since the start of the program, from the cycle counter: no
/// system call.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    start: u64,
    cycles_per_ms: u64,
}

impl Clock {
    /// A clock that starts now, at 0.
    #[must_use]
    pub(crate) fn start() -> Self {
        Self { start: eal::cycles(), cycles_per_ms: (eal::cycles_per_second() / 1000).max(1) }
    }

    /// The time at `cycles`, in milliseconds.
    #[must_use]
    pub(crate) fn at_ms(&self, cycles: u64) -> u64 {
        // Another core's counter may lag a little behind the one at the start.
        cycles.saturating_sub(self.start) / self.cycles_per_ms
    }

    /// The time now, in milliseconds.
    #[must_use]
    pub(crate) fn now_ms(&self) -> u64 {
        self.at_ms(eal::cycles())
    }

    /// The time now, in nanoseconds.
    #[must_use]
    pub(crate) fn now_ns(&self) -> u64 {
        let cycles = u128::from(eal::cycles().saturating_sub(self.start));
        (cycles * 1_000_000 / u128::from(self.cycles_per_ms)) as u64
    }
}

/// Nanoseconds from any start, for durations.
#[must_use]
pub(crate) fn nanoseconds() -> u64 {
    eal::nanoseconds(eal::cycles())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_counter_that_lags_is_no_distant_future() {
        let clock = Clock { start: 1000, cycles_per_ms: 100 };
        assert_eq!((clock.at_ms(999), clock.at_ms(1000), clock.at_ms(1250)), (0, 0, 2));
    }
}
