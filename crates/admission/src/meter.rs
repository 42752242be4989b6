//! The rate of one connection, from its samples.

/// Steps that a meter remembers. The rate of n events is known to about one
/// part in the root of n, which is enough to tell light from heavy; more would
/// only make it slower to notice a change.
const STEPS: usize = 16;

/// Samples that come within this time share a step, so that a heavy connection
/// is measured over half a second.
const STEP_MS: u64 = 32;

/// A rate over less time than this is one over this time: two samples that
/// happen to come together are no high rate.
const SHORTEST_MS: u64 = 250;

/// Without a packet for a time t, the rate is below 3 / t with 95 % confidence:
/// the rule of three (Hanley, Lippman-Hand: If nothing goes wrong, is
/// everything all right?, JAMA 249(13), 1983).
const RULE_OF_THREE: f64 = 3.0;

/// The last samples of a connection. The rate is their number over the time
/// they took, so the window fits the rate by itself: half a second for a heavy
/// connection, which shows a change at once, and for a light one as long as
/// sixteen samples take.
#[derive(Clone, Debug)]
pub struct Meter {
    /// When each step began, and its samples; a ring, the oldest at `next` once
    /// it is full.
    steps: [Step; STEPS],
    next: u8,
    used: u8,
    samples: u64,
    last_ms: u64,
    /// Packets that one sample stands for.
    packets: u32,
}

#[derive(Clone, Copy, Debug, Default)]
struct Step {
    /// Modulo 2^32, 49 days. What is older is known by its silence.
    at_ms: u32,
    samples: u32,
}

impl Step {
    fn age_ms(self, now_ms: u64) -> u64 {
        u64::from((now_ms as u32).wrapping_sub(self.at_ms))
    }
}

impl Meter {
    /// One that has had its first sample, which stands for `packets` packets.
    #[must_use]
    pub fn new(packets: u32, now_ms: u64) -> Self {
        let mut meter = Self::unseen(now_ms);
        meter.add(1, packets, now_ms);
        meter
    }

    /// One without a sample, for a connection that got its entry unmeasured.
    #[must_use]
    pub fn unseen(now_ms: u64) -> Self {
        Self {
            steps: [Step::default(); STEPS],
            next: 0,
            used: 0,
            samples: 0,
            last_ms: now_ms,
            packets: 1,
        }
    }

    /// So many more samples of `packets` packets each.
    pub fn add(&mut self, samples: u32, packets: u32, now_ms: u64) {
        self.packets = packets.max(1);
        self.last_ms = now_ms;
        self.samples += u64::from(samples);
        let next = usize::from(self.next);
        if self.used > 0 {
            if let Some(step) = self.steps.get_mut((next + STEPS - 1) % STEPS) {
                if step.age_ms(now_ms) < STEP_MS {
                    step.samples = step.samples.saturating_add(samples);
                    return;
                }
            }
        }
        if let Some(step) = self.steps.get_mut(next) {
            self.samples -= u64::from(step.samples);
            *step = Step { at_ms: now_ms as u32, samples };
        }
        self.next = ((next + 1) % STEPS) as u8;
        self.used = (self.used + 1).min(STEPS as u8);
    }

    /// Samples remembered.
    #[must_use]
    pub fn samples(&self) -> u64 {
        self.samples
    }

    /// Milliseconds that the remembered samples span up to `now_ms`.
    #[must_use]
    pub fn span_ms(&self, now_ms: u64) -> u64 {
        let oldest = if usize::from(self.used) < STEPS { 0 } else { self.next };
        self.steps.get(usize::from(oldest)).map_or(0, |step| step.age_ms(now_ms))
    }

    /// Milliseconds since the last sample.
    #[must_use]
    pub fn silence_ms(&self, now_ms: u64) -> u64 {
        now_ms.saturating_sub(self.last_ms)
    }

    /// Whether its silence says that it has probably ended: it is longer than a
    /// second and than five times the mean time between samples, which happens
    /// to a live one with less than 1 %.
    #[must_use]
    pub fn has_ended(&self, now_ms: u64) -> bool {
        let silence = self.silence_ms(now_ms);
        let mean = self.span_ms(self.last_ms) as f64 / self.events().max(1.0);
        silence > 1_000 && silence as f64 > 5.0 * mean
    }

    /// Packets per second. The first sample began the measurement and doesn't
    /// count: for rates distributed as Zipf's law with exponent 1 says, that
    /// makes it the mean of what the rate can be after these samples.
    #[must_use]
    pub fn rate(&self, now_ms: u64) -> f64 {
        self.over_span(self.events(), now_ms).min(self.ceiling(now_ms))
    }

    /// Packets per second that it has at least, at one standard deviation.
    #[must_use]
    pub fn at_least(&self, now_ms: u64) -> f64 {
        let events = self.events();
        self.over_span((events - events.sqrt()).max(0.0), now_ms).min(self.ceiling(now_ms))
    }

    /// Packets per second that it has at most, at one standard deviation.
    #[must_use]
    pub fn at_most(&self, now_ms: u64) -> f64 {
        let events = self.events();
        self.over_span(events + events.sqrt() + 1.0, now_ms).min(self.ceiling(now_ms))
    }

    fn events(&self) -> f64 {
        self.samples.saturating_sub(1) as f64
    }

    fn over_span(&self, events: f64, now_ms: u64) -> f64 {
        let span = self.span_ms(now_ms).max(SHORTEST_MS);
        events * f64::from(self.packets) * 1000.0 / span as f64
    }

    /// What the silence allows.
    fn ceiling(&self, now_ms: u64) -> f64 {
        let silence = self.silence_ms(now_ms).max(1);
        RULE_OF_THREE * f64::from(self.packets) * 1000.0 / silence as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A sample every `every_ms`, of 64 packets each.
    fn steady(every_ms: u64, for_ms: u64) -> Meter {
        let mut meter = Meter::new(64, 0);
        (1..=for_ms / every_ms).for_each(|n| meter.add(1, 64, n * every_ms));
        meter
    }

    #[test]
    fn a_steady_rate_is_measured_whether_heavy_or_light() {
        for (every_ms, for_ms) in [(1, 5_000), (10, 5_000), (100, 10_000), (2_000, 60_000)] {
            let rate = steady(every_ms, for_ms).rate(for_ms);
            let truth = 64_000.0 / every_ms as f64;
            assert!((rate / truth - 1.0).abs() < 0.1, "every {every_ms} ms: {rate}, not {truth}");
        }
    }

    #[test]
    fn the_truth_lies_between_the_bounds() {
        let meter = steady(100, 3_000);
        assert!(meter.at_least(3_000) < 640.0 && meter.at_most(3_000) > 640.0);
        assert!(meter.at_least(3_000) > 320.0 && meter.at_most(3_000) < 1_280.0);
    }

    #[test]
    fn silence_brings_a_heavy_connection_down_within_a_second() {
        let meter = steady(10, 5_000);
        assert!(meter.at_most(5_000) > 6_400.0);
        assert!(meter.at_most(6_000) <= 192.0, "{}", meter.at_most(6_000));
    }

    #[test]
    fn a_light_connection_that_becomes_heavy_shows_it_within_a_second() {
        let mut meter = steady(4_000, 60_000);
        (1..=50).for_each(|n| meter.add(1, 64, 60_000 + n * 20));
        assert!(meter.rate(61_000) > 2_500.0, "{}", meter.rate(61_000));
    }

    #[test]
    fn two_samples_together_are_no_high_rate() {
        let mut meter = Meter::new(64, 0);
        assert_eq!(meter.rate(0), 0.0);
        meter.add(1, 64, 1);
        assert!(meter.rate(1) <= 256.0, "{}", meter.rate(1));
        assert_eq!(meter.at_least(1), 0.0);
    }
}
