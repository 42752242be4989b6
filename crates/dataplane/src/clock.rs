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
        cycles.wrapping_sub(self.start) / self.cycles_per_ms
    }

    /// The time now, in milliseconds.
    #[must_use]
    pub(crate) fn now_ms(&self) -> u64 {
        self.at_ms(eal::cycles())
    }

    /// The time now, in nanoseconds.
    #[must_use]
    pub(crate) fn now_ns(&self) -> u64 {
        let cycles = u128::from(eal::cycles().wrapping_sub(self.start));
        (cycles * 1_000_000 / u128::from(self.cycles_per_ms)) as u64
    }
}
