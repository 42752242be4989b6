//! Waiting longer after every failure.

/// The waits of one [`Backoff`], in milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Waits {
    /// After the first failure.
    first_ms: u64,
    /// The longest.
    longest_ms: u64,
}

impl Waits {
    /// From `first_ms`, doubled after each failure, up to `longest_ms`.
    pub(crate) const fn new(first_ms: u64, longest_ms: u64) -> Self {
        Self { first_ms, longest_ms }
    }
}

/// The time at which something that failed may be tried again: each failure in a row
/// doubles the wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Backoff {
    waits: Waits,
    wait_ms: u64,
    until_ms: Option<u64>,
}

impl Backoff {
    /// Nothing has failed yet.
    #[must_use]
    pub(crate) fn new(waits: Waits) -> Self {
        Self { waits, wait_ms: waits.first_ms, until_ms: None }
    }

    /// Notes a failure at `now_ms`.
    pub(crate) fn failed(&mut self, now_ms: u64) {
        self.until_ms = Some(now_ms.saturating_add(self.wait_ms));
        self.wait_ms = self.wait_ms.saturating_mul(2).min(self.waits.longest_ms);
    }

    /// Notes a success.
    pub(crate) fn worked(&mut self) {
        *self = Self::new(self.waits);
    }

    /// When the next try is allowed.
    #[must_use]
    pub(crate) fn until_ms(&self) -> u64 {
        self.until_ms.unwrap_or(0)
    }

    /// Whether a try is allowed at `now_ms`.
    #[must_use]
    pub(crate) fn may_try(&self, now_ms: u64) -> bool {
        now_ms >= self.until_ms()
    }

    /// Whether the last try failed.
    #[must_use]
    pub(crate) fn is_failing(&self) -> bool {
        self.until_ms.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_wait_doubles_up_to_the_longest_and_starts_over_after_success() {
        let mut backoff = Backoff::new(Waits { first_ms: 10, longest_ms: 35 });
        assert!(backoff.may_try(0) && !backoff.is_failing());
        for (now, again) in [(0, 10), (10, 30), (30, 65), (65, 100)] {
            backoff.failed(now);
            assert!(!backoff.may_try(again - 1) && backoff.may_try(again), "{now}");
        }
        backoff.worked();
        assert!(backoff.may_try(0));
        backoff.failed(0);
        assert!(backoff.may_try(10));
    }
}
