//! What the measured core notes of itself.
use status::LoopReading;

use crate::machine::core_time::{CoreTime, Interruption};
use crate::statistics;

/// The counters of algorithm 1 in windows of equal length.
///
/// An iteration that takes longer than any burst can was interrupted: another
/// process had the core. Such an iteration counts nowhere, neither its time
/// nor its packets, only as stolen.
#[derive(Debug)]
pub(crate) struct Windows {
    /// Cycles of a window, stolen ones included.
    length: u64,
    /// From which on an iteration was interrupted.
    interruption: Interruption,
    /// Cycles for which the source was away before this window.
    away: u64,
    skipped: usize,
    now: Window,
    started: u64,
    done: Vec<Window>,
    last: u64,
    /// What the running iteration has found.
    pending: Option<(u64, u64)>,
}

/// One window.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Window {
    pub(crate) reading: LoopReading,
    pub(crate) stolen: u64,
    /// Cycles for which another process had the source's core.
    pub(crate) away: u64,
}

/// The source may be away for such a part of a window that counts.
const MOST_AWAY: u64 = 20;

/// Others may have the measured core for such a part of a undisturbed window.
const MOST_STOLEN: u64 = 2;

impl Window {
    /// Whether the source was there nearly all the time.
    pub(crate) const fn was_offered(&self) -> bool {
        self.away * MOST_AWAY <= self.reading.ref_cycles + self.stolen
    }

    /// Whether both cores were there nearly all the time.
    pub(crate) const fn was_undisturbed(&self) -> bool {
        self.was_offered() && self.stolen * MOST_STOLEN <= self.reading.ref_cycles + self.stolen
    }
}

impl Windows {
    /// `count` windows of `length` cycles after `skipped` ones that don't count.
    pub(crate) fn new(
        count: usize,
        skipped: usize,
        length: u64,
        interruption: Interruption,
    ) -> Self {
        Self {
            length,
            interruption,
            away: 0,
            skipped,
            now: Window::default(),
            started: 0,
            done: Vec::with_capacity(count),
            last: 0,
            pending: None,
        }
    }

    /// From which on an iteration was interrupted.
    pub(crate) const fn interruption(&self) -> Interruption {
        self.interruption
    }

    /// The first iteration begins at `now`.
    pub(crate) fn start(&mut self, now: u64) {
        self.last = now;
        self.started = now;
    }

    /// The next iteration begins at `now`; what was before doesn't count.
    pub(crate) fn resume(&mut self, now: u64) {
        self.last = now;
        self.pending = None;
        if self.started == 0 {
            self.started = now;
        }
    }

    /// An iteration begins at `now` (lines 2 to 4 of algorithm 1), and with it
    /// the one before ends; `source` is on another core. `false`: all windows are full.
    #[inline]
    pub(crate) fn iteration(&mut self, now: u64, source: Option<&CoreTime>) -> bool {
        let cycles = now.wrapping_sub(self.last);
        self.last = now;
        let pending = self.pending.take();
        if cycles > self.interruption.turn {
            self.now.stolen += cycles;
        } else {
            let reading = &mut self.now.reading;
            reading.ref_cycles += cycles;
            reading.polls += 1;
            if let Some((packets, operations)) = pending {
                reading.packets += packets;
                reading.bursts += 1;
                reading.ops_cycles += operations;
            }
        }
        if now.wrapping_sub(self.started) < self.length {
            return true;
        }
        let away = source.map_or(0, |source| source.away(now, self.interruption));
        self.close(now, away)
    }

    /// The running iteration has found `packets` and spent `cycles` on them.
    #[inline]
    pub(crate) fn found(&mut self, packets: usize, cycles: u64) {
        self.pending = Some((packets as u64, cycles));
    }

    #[cold]
    fn close(&mut self, now: u64, away: u64) -> bool {
        self.started = now;
        let mut window = std::mem::take(&mut self.now);
        window.away = away.saturating_sub(self.away);
        self.away = away;
        if self.skipped > 0 {
            self.skipped -= 1;
            return true;
        }
        if self.done.len() < self.done.capacity() {
            self.done.push(window);
        }
        self.done.len() < self.done.capacity()
    }

    /// The full windows.
    pub(crate) fn into_done(self) -> Vec<Window> {
        self.done
    }
}

/// The windows in which the source was there, and so was the measured core.
pub(crate) fn offered(windows: &[Window]) -> Vec<Window> {
    let counts = |window: &Window| window.was_offered() && window.reading.ref_cycles > 0;
    windows.iter().copied().filter(counts).collect()
}

/// The median of `of` over the windows for which it has a value.
pub(crate) fn median(windows: &[Window], of: impl Fn(&Window) -> Option<f64>) -> Option<f64> {
    statistics::median(&windows.iter().filter_map(of).collect::<Vec<_>>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interrupted_iterations_count_nowhere_else() {
        let mut windows = Windows::new(1, 0, 1000, Interruption::new(500, 1));
        windows.start(0);
        windows.iteration(100, None);
        windows.found(32, 80);
        windows.iteration(200, None);
        windows.found(32, 590);
        windows.iteration(800, None);
        assert!(!windows.iteration(1000, None));
        let done = windows.into_done();
        assert_eq!(done.len(), 1);
        let reading = done[0].reading;
        assert_eq!((reading.packets, reading.bursts, reading.ops_cycles), (32, 1, 80));
        assert_eq!((reading.ref_cycles, reading.polls, done[0].stolen), (400, 3, 600));
    }

    #[test]
    fn the_first_windows_are_skipped() {
        let mut windows = Windows::new(2, 1, 10, Interruption::new(500, 1));
        windows.start(0);
        let ends: Vec<bool> = (1..=3).map(|n| windows.iteration(n * 10, None)).collect();
        assert_eq!(ends, [true, true, false]);
        assert_eq!(windows.into_done().len(), 2);
    }

    #[test]
    fn windows_without_a_source_are_told_apart() {
        let interruption = Interruption::new(100, 1);
        let source = CoreTime::default();
        let mut windows = Windows::new(3, 0, 1000, interruption);
        windows.start(0);
        for now in (50..=3000).step_by(50) {
            // The source is away from 1200 to 2100.
            if !(1250..2100).contains(&now) {
                source.beat(now, interruption);
            }
            windows.iteration(now, Some(&source));
        }
        let done = windows.into_done();
        assert_eq!(done.iter().map(|w| w.away).collect::<Vec<_>>(), [0, 800, 100]);
        assert_eq!(done.iter().map(Window::was_offered).collect::<Vec<_>>(), [true, false, false]);
        assert_eq!(offered(&done), done[..1]);
        assert_eq!(offered(&done[1..]), []);
        let stolen = Window { stolen: done[0].reading.ref_cycles + 1, ..done[0] };
        assert_eq!([done[0], stolen, done[1]].map(|w| w.was_undisturbed()), [true, false, false]);
    }

    #[test]
    fn the_median_is_the_middle() {
        let window = |packets| Window {
            reading: LoopReading { packets, ..LoopReading::default() },
            stolen: 0,
            away: 0,
        };
        let windows = [9, 1, 5].map(window);
        assert_eq!(median(&windows, |w| Some(w.reading.packets as f64)), Some(5.0));
        assert_eq!(median(&windows, |_| None), None);
    }
}
