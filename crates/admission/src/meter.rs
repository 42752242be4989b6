//! The rate of one connection, from its samples.

/// Steps that a meter remembers.
const STEPS: usize = 16;

/// Samples that it remembers, about: a rate of n events is known to one part in
/// the root of n, and more would only make it slower to notice a change.
const SAMPLES: u64 = 256;

/// The newer steps have another rate than the older ones when their numbers of
/// samples are so many standard deviations apart; many splits are examined, so this
/// is not few.
const CHANGED: f64 = 4.0;

/// The distance of a rate's bounds from it, in standard deviations.
const SURE: f64 = 1.0;

/// Samples that come within this time share a step, so that a heavy connection
/// is measured over half a second.
const STEP_MS: u64 = 32;

/// A rate over a shorter time counts as one over this time: two samples that happen
/// to come together are no high rate.
const SHORTEST_MS: u64 = 250;

/// Without a sample for a time t, the rate is below 3 / t with 95 % confidence:
/// the rule of three (Hanley, Lippman-Hand: If nothing goes wrong, is
/// everything all right?, JAMA 249(13), 1983).
const LIKELY_BELOW: f64 = 3.0;

/// And below 5 / t with 99 %, so that the longest silence among thousands of
/// connections is not at once taken for the end of one.
const SURELY_BELOW: f64 = 5.0;

/// The last samples of a connection. The rate is their number over the time
/// they took. As long as it is steady the window grows, up to 256 samples, so
/// that equal rates look equal; when the newer ones differ from the older ones,
/// those are forgotten (the idea of ADWIN: Bifet, Gavalda: Learning from
/// time-changing data with adaptive windowing, SIAM SDM 2007), so a large change
/// shows within about ten samples.
#[derive(Clone, Debug)]
pub struct Meter {
    /// When each step began, and its samples; the oldest first.
    steps: [Step; STEPS],
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
    /// A meter that has had its first sample, which stands for `packets` packets.
    #[must_use]
    pub fn new(packets: u32, now_ms: u64) -> Self {
        let mut meter = Self::unseen(now_ms);
        meter.add(1, packets, now_ms);
        meter
    }

    /// A meter without a sample, for a connection that got its entry unmeasured.
    #[must_use]
    pub fn unseen(now_ms: u64) -> Self {
        Self { steps: [Step::default(); STEPS], used: 0, samples: 0, last_ms: now_ms, packets: 1 }
    }

    /// Adds so many samples of `packets` packets each.
    pub fn add(&mut self, samples: u32, packets: u32, now_ms: u64) {
        self.packets = packets.max(1);
        self.last_ms = now_ms;
        self.samples += u64::from(samples);
        let used = usize::from(self.used);
        if let Some(step) = used.checked_sub(1).and_then(|newest| self.steps.get_mut(newest)) {
            if step.age_ms(now_ms) < STEP_MS {
                step.samples = step.samples.saturating_add(samples);
                return;
            }
        }
        if used == STEPS {
            self.make_room(now_ms);
        }
        if let Some(step) = self.steps.get_mut(usize::from(self.used)) {
            *step = Step { at_ms: now_ms as u32, samples };
            self.used += 1;
        }
    }

    /// Makes room for a step: forgets steps that don't hold any more, or the oldest
    /// step, or joins the two neighbours with the fewest samples.
    fn make_room(&mut self, now_ms: u64) {
        let gone = self.changed_after(now_ms).or((self.samples > SAMPLES).then_some(1));
        if let Some(gone) = gone {
            let forgotten = self.steps.iter().take(gone).map(|step| u64::from(step.samples));
            self.samples -= forgotten.sum::<u64>();
            self.steps.rotate_left(gone);
            self.used = (STEPS - gone) as u8;
            return;
        }
        // The newest steps stay apart: a change shows in them first.
        let pairs = self.steps.windows(2).take(STEPS / 2).map(|pair| samples(pair) as u64);
        let least = pairs.enumerate().min_by_key(|&(_, samples)| samples).map_or(0, |(at, _)| at);
        if let Some([kept, joined, ..]) = self.steps.get_mut(least..) {
            kept.samples = kept.samples.saturating_add(joined.samples);
        }
        if let Some(behind) = self.steps.get_mut(least + 1..) {
            behind.rotate_left(1);
        }
        self.used = (STEPS - 1) as u8;
    }

    /// The number of oldest steps that had another rate than the steps after them.
    fn changed_after(&self, now_ms: u64) -> Option<usize> {
        let (all, span) = (samples(&self.steps), self.span_ms(now_ms) as f64);
        let surprise = |at: usize| {
            let newer = self.steps.get(at..)?;
            let part = newer.first()?.age_ms(now_ms) as f64 / span;
            // The events that fall into a part of the time, of so many in all.
            let expected = all * part;
            let deviation = (expected * (1.0 - part)).sqrt();
            Some(((samples(newer) - expected).abs() - 1.0) / deviation)
        };
        let splits = (1..STEPS).filter_map(|at| surprise(at).map(|surprise| (at, surprise)));
        let most = splits.max_by(|(_, a), (_, b)| a.total_cmp(b));
        most.filter(|&(_, surprise)| surprise > CHANGED).map(|(at, _)| at)
    }

    /// Number of remembered samples.
    #[must_use]
    pub fn samples(&self) -> u64 {
        self.samples
    }

    /// Milliseconds that the remembered samples span up to `now_ms`.
    #[must_use]
    pub fn span_ms(&self, now_ms: u64) -> u64 {
        self.steps.first().filter(|_| self.used > 0).map_or(0, |step| step.age_ms(now_ms))
    }

    /// Milliseconds since the last sample.
    #[must_use]
    pub fn silence_ms(&self, now_ms: u64) -> u64 {
        now_ms.saturating_sub(self.last_ms)
    }

    /// Whether the connection has probably ended: it has been silent for longer than
    /// a second and than five times the mean time between samples, which happens to a
    /// live connection in less than 1 %.
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
        self.over_span(self.events(), now_ms).min(self.below(LIKELY_BELOW, now_ms))
    }

    /// Packets per second that it has at least, as far as that is sure.
    #[must_use]
    pub fn at_least(&self, now_ms: u64) -> f64 {
        let events = self.events();
        let least = (events - SURE * events.sqrt()).max(0.0);
        self.over_span(least, now_ms).min(self.below(LIKELY_BELOW, now_ms))
    }

    /// Packets per second that it has at most, as far as that is sure.
    #[must_use]
    pub fn at_most(&self, now_ms: u64) -> f64 {
        let events = self.events();
        let most = events + SURE * events.sqrt() + 1.0;
        self.over_span(most, now_ms).min(self.below(SURELY_BELOW, now_ms))
    }

    fn events(&self) -> f64 {
        self.samples.saturating_sub(1) as f64
    }

    fn over_span(&self, events: f64, now_ms: u64) -> f64 {
        let span = self.span_ms(now_ms).max(SHORTEST_MS);
        events * f64::from(self.packets) * 1000.0 / span as f64
    }

    /// The bound that the silence sets.
    fn below(&self, events: f64, now_ms: u64) -> f64 {
        let silence = self.silence_ms(now_ms).max(1);
        events * f64::from(self.packets) * 1000.0 / silence as f64
    }
}

fn samples(steps: &[Step]) -> f64 {
    steps.iter().map(|step| f64::from(step.samples)).sum()
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
        let longer = steady(100, 25_000);
        assert!(longer.at_least(25_000) > 550.0 && longer.at_most(25_000) < 740.0, "surer by then");
    }

    #[test]
    fn silence_brings_a_heavy_connection_down_within_a_second() {
        let meter = steady(10, 5_000);
        assert!(meter.at_most(5_000) > 6_400.0);
        assert!(
            meter.rate(6_000) <= 192.0 && meter.at_most(6_000) <= 320.0,
            "{}",
            meter.at_most(6_000)
        );
    }

    #[test]
    fn a_light_connection_that_becomes_heavy_shows_it_within_a_second() {
        let mut meter = steady(4_000, 60_000);
        (1..=50).for_each(|n| meter.add(1, 64, 60_000 + n * 20));
        assert!(meter.rate(61_000) > 2_500.0, "{}", meter.rate(61_000));
    }

    #[test]
    fn a_rate_that_fell_to_a_tenth_shows_it_after_twenty_samples() {
        let mut meter = steady(10, 5_000);
        (1..=20).for_each(|n| meter.add(1, 64, 5_000 + n * 100));
        assert!(meter.at_most(7_000) < 1_500.0, "{}", meter.at_most(7_000));
    }

    #[test]
    fn what_is_remembered_is_bounded() {
        for every_ms in [1, 7, 40, 900] {
            let meter = steady(every_ms, every_ms * 5_000);
            let counted: u64 = meter.steps.iter().map(|step| u64::from(step.samples)).sum();
            let bounds = 100..=4 * SAMPLES;
            assert!(bounds.contains(&meter.samples()), "every {every_ms} ms: {}", meter.samples());
            assert_eq!(counted, meter.samples());
        }
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
