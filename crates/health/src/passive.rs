//! One backend's passive signals: what workers have counted in, whether it is down out.
use crate::silence::Silence;
use crate::slow_start::SlowStart;
use crate::{Change, State};

/// Which signals take a backend down, and for how long. A threshold of 0 switches its
/// signal off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PassiveSettings {
    /// New connections in a row that the backend refused, without one that it took between
    /// them.
    pub resets: u32,
    /// New connections in a row that have waited `timeout_ms` for a first answer, without
    /// any answer since the oldest of them.
    pub timeouts: u32,
    /// Milliseconds after which a connection without an answer counts, and for which a next
    /// hop must be unknown to be lost.
    pub timeout_ms: u64,
    /// Whether a lost next hop takes the backend down.
    pub next_hop: bool,
    /// Milliseconds for which the backend stays down at first. Each further time the hold is
    /// twice as long, up to [`LONGEST`] times, until the backend has served for as long as
    /// it was held last.
    pub hold_ms: u64,
    /// The part of a service's backends, in percent, that refusals and timeouts may have
    /// down at a time.
    pub most: u8,
    /// Milliseconds in which the weight of a backend that has come up rises to
    /// what is configured; 0: at once.
    pub slow_start_ms: u64,
}

/// How often the first hold fits into the longest one.
pub const LONGEST: u64 = 64;

/// What has been counted for a backend since the start, and whether packets can go there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Seen {
    /// New connections whose first answer is waited for.
    pub asked: u64,
    /// First answers that were no refusal.
    pub answered: u64,
    /// First answers that were a RST.
    pub refused: u64,
    /// Whether the Ethernet address of the next hop towards the backend is known.
    pub has_next_hop: bool,
}

/// What speaks against a backend.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Complaint {
    NextHopLost,
    Refused(u64),
    Silent(u64),
}

impl Complaint {
    fn text(self, timeout_ms: u64) -> String {
        let seconds = timeout_ms as f64 / 1000.0;
        match self {
            Self::NextHopLost => "its next hop does not answer".to_owned(),
            Self::Refused(count) => format!("it refused {count} new connections in a row"),
            Self::Silent(count) => {
                format!("{count} new connections in a row had no answer within {seconds} s")
            }
        }
    }
}

/// Why a backend is down, and until when.
#[derive(Clone, Copy, Debug)]
enum Down {
    /// Until the next hop is known again.
    NextHop,
    Until(u64),
}

/// The state machine of one backend's passive signals.
#[derive(Clone, Debug)]
pub struct Watch {
    settings: PassiveSettings,
    last: Seen,
    refusals: u64,
    silence: Silence,
    lost_since_ms: Option<u64>,
    down: Option<Down>,
    weight: SlowStart,
    /// How long the backend was held last, and when it came up again.
    held_ms: u64,
    back_ms: u64,
}

impl Watch {
    /// The watch over a backend that serves, and for which `seen` has been counted before.
    #[must_use]
    pub fn new(settings: PassiveSettings, seen: Seen) -> Self {
        Self {
            settings,
            last: seen,
            refusals: 0,
            silence: Silence::default(),
            lost_since_ms: None,
            down: None,
            weight: SlowStart::FULL,
            held_ms: 0,
            back_ms: 0,
        }
    }

    /// Judges by other settings from now on.
    pub const fn set(&mut self, settings: PassiveSettings) {
        self.settings = settings;
    }

    /// By which settings it judges.
    #[must_use]
    pub const fn settings(&self) -> &PassiveSettings {
        &self.settings
    }

    /// Up or down.
    #[must_use]
    pub const fn state(&self) -> State {
        if self.down.is_some() { State::Down } else { State::Up }
    }

    /// The backend's part of the configured weight, in percent.
    #[must_use]
    pub const fn percent(&self) -> u8 {
        self.weight.percent()
    }

    /// Takes note of what has been counted by `now_ms`, and brings a backend up whose time
    /// has come. What speaks against one that is up.
    pub(crate) fn see(&mut self, seen: Seen, now_ms: u64) -> (Option<Change>, Option<Complaint>) {
        let complaint = self.complaint(seen, now_ms);
        let Some(down) = self.down else {
            let stepped = self.weight.tick(self.settings.slow_start_ms, now_ms);
            return (stepped.then(|| self.change(String::new())), complaint);
        };
        // What was under way when it went down says nothing about its return.
        (self.refusals, self.silence) = (0, Silence::default());
        let is_back = match down {
            Down::NextHop => seen.has_next_hop,
            Down::Until(end_ms) => now_ms >= end_ms,
        };
        if !is_back {
            return (None, None);
        }
        self.down = None;
        self.back_ms = now_ms;
        self.weight = SlowStart::begin(self.settings.slow_start_ms, now_ms);
        (Some(self.change(String::new())), None)
    }

    /// Takes the backend down for `complaint`.
    pub(crate) fn take_down(&mut self, complaint: Complaint, now_ms: u64) -> Change {
        let hold_ms = self.settings.hold_ms;
        self.weight = SlowStart::DOWN;
        (self.refusals, self.silence) = (0, Silence::default());
        self.down = Some(match complaint {
            Complaint::NextHopLost => Down::NextHop,
            Complaint::Refused(_) | Complaint::Silent(_) => {
                let behaved = now_ms.saturating_sub(self.back_ms) >= self.held_ms;
                let again = self.held_ms.saturating_mul(2).min(hold_ms.saturating_mul(LONGEST));
                self.held_ms = if behaved { hold_ms } else { again.max(hold_ms) };
                Down::Until(now_ms.saturating_add(self.held_ms))
            }
        });
        self.change(self.why(complaint))
    }

    /// What `complaint` says, in words.
    pub(crate) fn why(&self, complaint: Complaint) -> String {
        complaint.text(self.settings.timeout_ms)
    }

    fn complaint(&mut self, seen: Seen, now_ms: u64) -> Option<Complaint> {
        let PassiveSettings { resets, timeouts, timeout_ms, next_hop, .. } = self.settings;
        let last = std::mem::replace(&mut self.last, seen);
        let answered = seen.answered > last.answered;
        let refused = seen.refused.saturating_sub(last.refused);
        // The order of what was counted between two looks is not known: an answer among it
        // counts as the last.
        self.refusals = if answered { 0 } else { self.refusals.saturating_add(refused) };
        let overdue = if answered || refused > 0 {
            self.silence.end();
            0
        } else {
            self.silence.go_on(seen.asked.saturating_sub(last.asked), timeout_ms, now_ms)
        };
        let lost_since_ms = match seen.has_next_hop {
            true => None,
            false => Some(self.lost_since_ms.unwrap_or(now_ms)),
        };
        self.lost_since_ms = lost_since_ms;
        let is_lost = lost_since_ms.is_some_and(|since| now_ms.saturating_sub(since) >= timeout_ms);
        let reaches = |count: u64, threshold: u32| threshold > 0 && count >= u64::from(threshold);
        if next_hop && is_lost {
            Some(Complaint::NextHopLost)
        } else if reaches(self.refusals, resets) {
            Some(Complaint::Refused(self.refusals))
        } else if reaches(overdue, timeouts) {
            Some(Complaint::Silent(overdue))
        } else {
            None
        }
    }

    const fn change(&self, why: String) -> Change {
        Change { state: self.state(), percent: self.percent(), why }
    }
}
