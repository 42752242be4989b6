//! The weight of a backend that has come up: it rises in steps.

/// Steps in which a slow start goes, in percent of the configured weight.
const STEP: u8 = 10;
const FULL: u8 = 100;

/// A backend's part of its configured weight.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SlowStart {
    percent: u8,
    /// When the slow start began, while it lasts.
    since_ms: Option<u64>,
}

impl SlowStart {
    /// The whole weight.
    pub(crate) const FULL: Self = Self { percent: FULL, since_ms: None };
    /// No weight: the backend is down.
    pub(crate) const DOWN: Self = Self { percent: 0, since_ms: None };

    /// The first step of a rise that begins at `now_ms` and takes `length_ms`; 0: the whole
    /// weight at once.
    pub(crate) const fn begin(length_ms: u64, now_ms: u64) -> Self {
        if length_ms == 0 {
            return Self::FULL;
        }
        Self { percent: STEP, since_ms: Some(now_ms) }
    }

    /// In percent.
    pub(crate) const fn percent(&self) -> u8 {
        self.percent
    }

    /// When the next step is due; `None`: there is none.
    pub(crate) fn due_ms(&self, length_ms: u64) -> Option<u64> {
        let part = u64::from(self.percent) * length_ms;
        Some(self.since_ms?.saturating_add(part.div_ceil(u64::from(FULL)).max(1)))
    }

    /// Takes the steps that are due at `now_ms`; whether there was one.
    pub(crate) fn tick(&mut self, length_ms: u64, now_ms: u64) -> bool {
        let before = self.percent;
        while self.percent < FULL && self.due_ms(length_ms).is_some_and(|due| due <= now_ms) {
            self.percent = (self.percent + STEP).min(FULL);
        }
        if self.percent == FULL {
            self.since_ms = None;
        }
        before != self.percent
    }
}
