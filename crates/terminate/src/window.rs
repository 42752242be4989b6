//! How much may be under way to a peer: slow start, and CUBIC behind it (RFC 9438).

/// What is left of the window after a loss, and how fast it grows (RFC 9438 sections 4.1
/// and 4.6).
const BETA: f64 = 0.7;
const C: f64 = 0.4;
/// Growth in segments a round trip of a sender that would share fairly with Reno (section
/// 4.3).
const ALPHA: f64 = 3.0 * (1.0 - BETA) / (1.0 + BETA);
/// The first window in segments and in bytes (RFC 6928).
const FIRST: (f64, f64) = (10.0, 14_600.0);

/// A congestion window, in bytes.
#[derive(Clone, Debug)]
pub(crate) struct Window {
    segment: f64,
    size: f64,
    /// Where slow start ends.
    threshold: f64,
    /// The window before the last loss.
    before: f64,
    growth: Option<Growth>,
}

/// Growth since the last loss.
#[derive(Clone, Copy, Debug)]
struct Growth {
    since_ms: u64,
    /// The window before the loss, and seconds until it is that again.
    origin: f64,
    until: f64,
    /// What a sender of Reno's kind would have.
    friendly: f64,
}

impl Window {
    /// The first window for segments with so many bytes of data.
    pub(crate) fn new(segment: u32) -> Self {
        let segment = f64::from(segment.max(1));
        let size = first(segment);
        Self { segment, size, threshold: f64::INFINITY, before: 0.0, growth: None }
    }

    pub(crate) const fn size(&self) -> u32 {
        self.size as u32
    }

    /// Bytes of data in a segment.
    pub(crate) const fn segment(&self) -> u32 {
        self.segment as u32
    }

    /// Segments are no longer than this from now on.
    pub(crate) fn shorten(&mut self, segment: u32) {
        self.segment = self.segment.min(f64::from(segment.max(1)));
    }

    /// So much was acknowledged, while `under_way` was on its way. A window that was not
    /// used says nothing about the path and does not grow (RFC 7661).
    pub(crate) fn grow(&mut self, acknowledged: u32, under_way: u32, now_ms: u64) {
        let (acknowledged, under_way) = (f64::from(acknowledged), f64::from(under_way));
        if self.size < self.threshold {
            if 2.0 * under_way >= self.size {
                self.size += acknowledged;
            }
            return;
        }
        if under_way + 2.0 * self.segment < self.size {
            return;
        }
        let Self { segment, size, before, .. } = *self;
        let growth = self.growth.get_or_insert_with(|| {
            let origin = before.max(size);
            let until = ((origin - size) / segment / C).cbrt();
            Growth { since_ms: now_ms, origin, until, friendly: size }
        });
        growth.friendly += ALPHA * segment * acknowledged / size;
        let seconds = now_ms.saturating_sub(growth.since_ms) as f64 / 1000.0;
        let cubic = growth.origin + C * (seconds - growth.until).powi(3) * segment;
        let target = cubic.clamp(size, 1.5 * size);
        self.size = growth.friendly.max(size + (target - size) * acknowledged / size);
    }

    /// A segment was lost.
    fn reduce(&mut self) {
        let own = self.size;
        // A window that did not get back to what it was gives way to others (section 4.7).
        self.before = if own < self.before { own * (1.0 + BETA) / 2.0 } else { own };
        self.threshold = (own * BETA).max(2.0 * self.segment);
        self.growth = None;
    }

    /// The peer lacks a segment, and has got others behind it.
    pub(crate) fn lost(&mut self) {
        self.reduce();
        self.size = self.threshold;
    }

    /// The peer has not answered in time. `again`: not for the first time.
    pub(crate) fn silent(&mut self, again: bool) {
        if !again {
            self.reduce();
        }
        self.size = self.segment;
    }

    /// Nothing was sent for long: the path may have changed (RFC 5681 section 4.1).
    pub(crate) fn rested(&mut self) {
        self.size = self.size.min(first(self.segment));
    }
}

fn first(segment: f64) -> f64 {
    let (segments, bytes) = FIRST;
    (segments * segment).min(bytes.max(2.0 * segment))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ten_segments_go_first_and_twice_as_many_after_each_round_trip() {
        let mut window = Window::new(1460);
        assert_eq!(window.size(), 14_600);
        window.grow(14_600, 14_600, 100);
        assert_eq!(window.size(), 29_200);
        // What was not used does not grow.
        window.grow(1_000, 2_000, 200);
        assert_eq!(window.size(), 29_200);
        assert_eq!(Window::new(8_960).size(), 17_920, "two that are long");
    }

    #[test]
    fn a_loss_takes_three_tenths_and_the_window_comes_back_as_cubic_says() {
        let mut window = Window::new(1000);
        let size = 100_000;
        while window.size() < size {
            window.grow(1000, window.size(), 0);
        }
        window.lost();
        assert_eq!(window.size(), 70_000);
        // K = cbrt(30 segments / 0.4) = 4.2 s; round trips of 100 ms.
        let mut reached = 0;
        for now_ms in (0..10_000).step_by(100) {
            for _ in 0..window.size() / 1000 {
                window.grow(1000, window.size(), now_ms);
            }
            if reached == 0 && window.size() >= 99_000 {
                reached = now_ms;
            }
        }
        assert!((3_000..5_000).contains(&reached), "{reached}");
        assert!(window.size() > 110_000, "{}", window.size());
    }

    #[test]
    fn silence_leaves_one_segment_and_two_segments_are_the_least_behind_it() {
        let mut window = Window::new(1000);
        window.silent(false);
        assert_eq!(window.size(), 1000);
        window.silent(true);
        let mut now_ms = 0;
        while window.size() < 7_000 {
            now_ms += 1;
            window.grow(1000, window.size(), now_ms);
        }
        assert_eq!(now_ms, 6, "slow start up to 0.7 of ten");
        (0..9).for_each(|_| window.lost());
        assert_eq!(window.size(), 2_000);
    }

    #[test]
    fn a_rest_takes_the_window_back_to_the_first() {
        let mut window = Window::new(1460);
        window.grow(14_600, 14_600, 0);
        window.rested();
        assert_eq!(window.size(), 14_600);
    }
}
