//! What the measured core notes of itself.
use dataplane::utilization::LoopReading;

/// The counters of algorithm 1 in windows of equal length.
///
/// An iteration that takes longer than any burst can was interrupted: another
/// process had the core. Such an iteration counts nowhere, neither its time
/// nor its packets, only as stolen.
#[derive(Debug)]
pub(crate) struct Windows {
    /// Cycles of a window, stolen ones included.
    length: u64,
    /// Cycles from which on an iteration was interrupted.
    interrupted: u64,
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
}

impl Windows {
    /// `count` windows of `length` cycles after `skipped` ones that don't count.
    pub(crate) fn new(count: usize, skipped: usize, length: u64, interrupted: u64) -> Self {
        Self {
            length,
            interrupted,
            skipped,
            now: Window::default(),
            started: 0,
            done: Vec::with_capacity(count),
            last: 0,
            pending: None,
        }
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
    /// the one before ends. `false`: all windows are full.
    #[inline]
    pub(crate) fn iteration(&mut self, now: u64) -> bool {
        let cycles = now.wrapping_sub(self.last);
        self.last = now;
        let pending = self.pending.take();
        if cycles > self.interrupted {
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
        self.close(now)
    }

    /// The running iteration has found `packets` and spent `cycles` on them.
    #[inline]
    pub(crate) fn found(&mut self, packets: usize, cycles: u64) {
        self.pending = Some((packets as u64, cycles));
    }

    #[cold]
    fn close(&mut self, now: u64) -> bool {
        self.started = now;
        let window = std::mem::take(&mut self.now);
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

/// The median of `of` over the windows for which it has a value.
pub(crate) fn median(windows: &[Window], of: impl Fn(&Window) -> Option<f64>) -> Option<f64> {
    let mut values: Vec<f64> = windows.iter().filter_map(of).collect();
    values.sort_unstable_by(f64::total_cmp);
    values.get(values.len() / 2).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interrupted_iterations_count_nowhere_else() {
        let mut windows = Windows::new(1, 0, 1000, 500);
        windows.start(0);
        windows.iteration(100);
        windows.found(32, 80);
        windows.iteration(200);
        windows.found(32, 590);
        windows.iteration(800);
        assert!(!windows.iteration(1000));
        let done = windows.into_done();
        assert_eq!(done.len(), 1);
        let reading = done[0].reading;
        assert_eq!((reading.packets, reading.bursts, reading.ops_cycles), (32, 1, 80));
        assert_eq!((reading.ref_cycles, reading.polls, done[0].stolen), (400, 3, 600));
    }

    #[test]
    fn the_first_windows_are_skipped() {
        let mut windows = Windows::new(2, 1, 10, 500);
        windows.start(0);
        let ends: Vec<bool> = (1..=3).map(|n| windows.iteration(n * 10)).collect();
        assert_eq!(ends, [true, true, false]);
        assert_eq!(windows.into_done().len(), 2);
    }

    #[test]
    fn the_median_is_the_middle() {
        let window = |packets| Window {
            reading: LoopReading { packets, ..LoopReading::default() },
            stolen: 0,
        };
        let windows = [9, 1, 5].map(window);
        assert_eq!(median(&windows, |w| Some(w.reading.packets as f64)), Some(5.0));
        assert_eq!(median(&windows, |_| None), None);
    }
}
