//! One backend's state: outcomes of probes in, changes out.
use crate::jitter::Jitter;
use crate::slow_start::SlowStart;

/// When a backend is probed, and what it takes to change its state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Milliseconds from the end of a probe to the begin of the next.
    pub interval_ms: u64,
    /// Milliseconds after which a probe without an answer has failed.
    pub timeout_ms: u64,
    /// Probes in a row that must pass before a backend that is down is up.
    pub rise: u32,
    /// Probes in a row that must fail before a backend that is up is down.
    pub fall: u32,
    /// By how much an interval may differ from `interval_ms`, in percent of it.
    pub jitter: u8,
    /// Milliseconds in which the weight of a backend that has come up rises to
    /// what is configured; 0: at once.
    pub slow_start_ms: u64,
}

impl Settings {
    /// The longest time from the failure of a backend to its [`State::Down`], in
    /// milliseconds: an answer that was under way counts for a backend that died
    /// after it.
    #[must_use]
    pub const fn fall_time_ms(&self) -> u64 {
        let interval = self.interval_ms + self.interval_ms * self.jitter as u64 / 100;
        self.fall as u64 * (interval + self.timeout_ms)
    }
}

/// What became of a probe.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The backend answered as it should.
    Passed,
    /// It did not, and why.
    Failed(String),
}

/// What a backend is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// No probe has ended yet: the backend serves, and the first probe decides.
    Unknown,
    /// It serves.
    Up,
    /// It gets no new connections.
    Down,
}

/// A backend's state or its part of the configured weight has changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// What it is now.
    pub state: State,
    /// Its part of the configured weight, in percent; 0 only while it is down.
    pub percent: u8,
    /// Why it is down; empty otherwise.
    pub why: String,
}

/// The state machine of one backend.
#[derive(Clone, Debug)]
pub struct Monitor {
    settings: Settings,
    jitter: Jitter,
    state: State,
    /// Outcomes in a row that speak against the state.
    streak: u32,
    weight: SlowStart,
    /// When the next probe begins; `None` while one is under way.
    probe_at_ms: Option<u64>,
}

impl Monitor {
    /// A backend of which nothing is known at `now_ms`. Monitors with different
    /// seeds probe at different times.
    #[must_use]
    pub fn new(settings: Settings, seed: u64, now_ms: u64) -> Self {
        let mut jitter = Jitter::new(seed);
        let first = jitter.below(settings.interval_ms);
        Self {
            settings,
            jitter,
            state: State::Unknown,
            streak: 0,
            weight: SlowStart::FULL,
            probe_at_ms: Some(now_ms + first),
        }
    }

    /// What the backend is.
    #[must_use]
    pub const fn state(&self) -> State {
        self.state
    }

    /// Its part of the configured weight, in percent.
    #[must_use]
    pub const fn percent(&self) -> u8 {
        self.weight.percent()
    }

    /// How it is probed.
    #[must_use]
    pub const fn settings(&self) -> &Settings {
        &self.settings
    }

    /// The same backend, probed by other settings from now on.
    pub const fn set(&mut self, settings: Settings) {
        self.settings = settings;
    }

    /// The same backend in the same state, asked something else: probes begin anew.
    #[must_use]
    pub fn again(&self, settings: Settings, seed: u64, now_ms: u64) -> Self {
        let Self { state, weight, .. } = *self;
        Self { state, weight, ..Self::new(settings, seed, now_ms) }
    }

    /// When [`Self::tick`] has something to do next; `None`: after the probe that is
    /// under way.
    #[must_use]
    pub fn due_ms(&self) -> Option<u64> {
        let step = self.weight.due_ms(self.settings.slow_start_ms);
        self.probe_at_ms.into_iter().chain(step).min()
    }

    /// Whether a probe is to begin at `now_ms`, and what has changed by the time.
    pub fn tick(&mut self, now_ms: u64) -> (bool, Option<Change>) {
        let begins = self.probe_at_ms.is_some_and(|at| at <= now_ms);
        if begins {
            self.probe_at_ms = None;
        }
        (begins, self.rise(now_ms))
    }

    /// The probe that was under way has ended at `now_ms`.
    pub fn finish(&mut self, outcome: Outcome, now_ms: u64) -> Option<Change> {
        let pause = self.jitter.around(self.settings.interval_ms, self.settings.jitter);
        self.probe_at_ms = Some(now_ms.saturating_add(pause.max(1)));
        let passed = outcome == Outcome::Passed;
        let needed = match self.state {
            State::Unknown => 1,
            State::Up if passed => return self.agrees(),
            State::Down if !passed => return self.agrees(),
            State::Up => self.settings.fall,
            State::Down => self.settings.rise,
        };
        self.streak += 1;
        if self.streak < needed {
            return None;
        }
        self.streak = 0;
        let was = std::mem::replace(&mut self.state, if passed { State::Up } else { State::Down });
        self.weight = match (passed, was) {
            (false, _) => SlowStart::DOWN,
            (true, State::Down) => SlowStart::begin(self.settings.slow_start_ms, now_ms),
            (true, State::Unknown | State::Up) => SlowStart::FULL,
        };
        let why = match outcome {
            Outcome::Passed => String::new(),
            Outcome::Failed(why) => why,
        };
        Some(Change { state: self.state, percent: self.percent(), why })
    }

    const fn agrees(&mut self) -> Option<Change> {
        self.streak = 0;
        None
    }

    /// The weight at `now_ms` of a backend in its slow start, if it has changed.
    fn rise(&mut self, now_ms: u64) -> Option<Change> {
        let stepped = self.weight.tick(self.settings.slow_start_ms, now_ms);
        let change = Change { state: self.state, percent: self.percent(), why: String::new() };
        stepped.then_some(change)
    }
}
