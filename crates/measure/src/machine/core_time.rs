//! Whether a thread has its core: what happens while another process has it must
//! not count as a slow source, a loss or a latency.
use std::sync::atomic::{AtomicU64, Ordering};

/// Microseconds after an absence until what was waiting has been served.
const BACKLOG_US: u64 = 300;

/// One thread's presence: it says at every turn of its loop that it is there.
/// What is written at every turn is apart from what is read often.
#[derive(Debug, Default)]
pub(crate) struct CoreTime {
    turn: Turn,
    absence: Absence,
}

#[derive(Debug, Default)]
#[repr(align(128))]
struct Turn {
    /// The cycle of the last turn; 0: none yet.
    last: AtomicU64,
}

#[derive(Debug, Default)]
#[repr(align(128))]
struct Absence {
    /// Cycles of all absences.
    away: AtomicU64,
    /// When the last one began, and ended.
    left: AtomicU64,
    back: AtomicU64,
}

/// What counts as an absence, in cycles.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Interruption {
    /// No turn takes so long.
    pub(crate) turn: u64,
    backlog: u64,
}

impl Interruption {
    /// No turn takes `turn_us` microseconds.
    pub(crate) const fn new(turn_us: u64, cycles_per_us: u64) -> Self {
        Self { turn: turn_us * cycles_per_us, backlog: BACKLOG_US * cycles_per_us }
    }

    /// Nothing is an absence.
    pub(crate) const fn endless() -> Self {
        Self { turn: u64::MAX, backlog: 0 }
    }
}

impl CoreTime {
    /// The thread begins another turn.
    #[inline]
    pub(crate) fn beat(&self, now: u64, interruption: Interruption) {
        let last = self.turn.last.load(Ordering::Relaxed);
        self.turn.last.store(now, Ordering::Relaxed);
        if now.saturating_sub(last) > interruption.turn && last != 0 {
            self.returned(last, now);
        }
    }

    #[cold]
    fn returned(&self, left: u64, now: u64) {
        let Absence { away, left: from, back } = &self.absence;
        away.fetch_add(now - left, Ordering::Relaxed);
        from.store(left, Ordering::Relaxed);
        back.store(now, Ordering::Relaxed);
    }

    /// Cycles of all absences, the present one included.
    pub(crate) fn away(&self, now: u64, interruption: Interruption) -> u64 {
        let since = now.saturating_sub(self.turn.last.load(Ordering::Relaxed));
        let present = if since > interruption.turn { since } else { 0 };
        self.absence.away.load(Ordering::Relaxed) + present
    }

    /// Whether the thread is away, or was so shortly before that its backlog
    /// may be felt.
    pub(crate) fn excused(&self, now: u64, interruption: Interruption) -> bool {
        let since = now.saturating_sub(self.turn.last.load(Ordering::Relaxed));
        since > interruption.turn || self.touched(now, now, interruption)
    }

    /// Whether the last absence, with its backlog, was between `from` and `to`
    /// in part.
    #[inline]
    pub(crate) fn touched(&self, from: u64, to: u64, interruption: Interruption) -> bool {
        let back = self.absence.back.load(Ordering::Relaxed);
        let left = self.absence.left.load(Ordering::Relaxed);
        back != 0 && to >= left && from <= back + interruption.backlog
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATIENCE: Interruption = Interruption::new(60, 1);

    #[test]
    fn a_long_turn_is_an_absence() {
        let presence = CoreTime::default();
        for now in [1_000_000, 1_000_050, 1_000_100] {
            presence.beat(now, PATIENCE);
        }
        assert_eq!(presence.away(1_000_150, PATIENCE), 0, "the first turn is none");
        assert!(!presence.excused(1_000_150, PATIENCE));
        assert_eq!(presence.away(1_000_200, PATIENCE), 100, "not back yet");
        assert!(presence.excused(1_000_200, PATIENCE));
        presence.beat(1_000_300, PATIENCE);
        presence.beat(1_000_350, PATIENCE);
        assert_eq!(presence.away(1_000_360, PATIENCE), 200);
        assert!(presence.excused(1_000_360, PATIENCE), "there is a backlog");
        presence.beat(1_000_405, PATIENCE);
        let mut now = 1_000_405;
        while now < 1_000_650 {
            now += 50;
            presence.beat(now, PATIENCE);
        }
        assert!(!presence.excused(now, PATIENCE));
    }

    #[test]
    fn what_overlaps_an_absence_is_touched_by_it() {
        let presence = CoreTime::default();
        assert!(!presence.touched(0, u64::MAX, PATIENCE));
        presence.beat(1000, PATIENCE);
        presence.beat(2000, PATIENCE);
        for (from, to, wanted) in [
            (900, 999, false),
            (990, 1000, true),
            (1500, 1600, true),
            (2300, 2400, true),
            (2301, 2400, false),
        ] {
            assert_eq!(presence.touched(from, to, PATIENCE), wanted, "{from} to {to}");
        }
    }
}
