//! A token bucket on the caller's clock.

/// Lets `rate` events a second pass, and bursts up to as many.
#[derive(Clone, Debug)]
pub(crate) struct TokenBucket {
    rate: u32,
    /// Thousandths of tokens.
    level: u64,
    filled_ms: u64,
}

impl TokenBucket {
    /// A full bucket.
    #[must_use]
    pub(crate) fn new(rate: u32) -> Self {
        Self { rate, level: u64::from(rate) * 1000, filled_ms: 0 }
    }

    /// Takes another rate. What the bucket has stays, up to what it then holds: the
    /// configuration changes whenever a health check finds something.
    pub(crate) fn set_rate(&mut self, rate: u32) {
        self.rate = rate;
        self.level = self.level.min(u64::from(rate) * 1000);
    }

    /// Takes one token, if there is one at `now_ms`.
    #[must_use]
    pub(crate) fn take(&mut self, now_ms: u64) -> bool {
        let passed = now_ms.saturating_sub(self.filled_ms);
        self.filled_ms = self.filled_ms.max(now_ms);
        let full = u64::from(self.rate) * 1000;
        let gained = passed.saturating_mul(u64::from(self.rate));
        self.level = self.level.saturating_add(gained).min(full);
        let Some(left) = self.level.checked_sub(1000) else { return false };
        self.level = left;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lets_the_rate_pass() {
        let mut bucket = TokenBucket::new(10);
        let taken = |bucket: &mut TokenBucket, ms| (0..100).filter(|_| bucket.take(ms)).count();
        assert_eq!(taken(&mut bucket, 5), 10);
        assert_eq!(taken(&mut bucket, 104), 0);
        assert_eq!(taken(&mut bucket, 105), 1);
        assert_eq!(taken(&mut bucket, 50), 0, "a clock that goes back gives nothing");
        assert_eq!(taken(&mut bucket, 100_000), 10);
        bucket.set_rate(10);
        assert_eq!(taken(&mut bucket, 100_000), 0, "the same rate fills nothing");
        assert_eq!(taken(&mut bucket, 200_000), 10);
        assert_eq!(taken(&mut bucket, 200_500), 5);
        bucket.set_rate(20);
        assert_eq!(taken(&mut bucket, 200_550), 1);
        assert_eq!(taken(&mut bucket, 300_000), 20);
        bucket.set_rate(0);
        assert_eq!(taken(&mut bucket, 400_000), 0);
    }
}
