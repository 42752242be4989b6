//! What a polling thread does when it finds nothing.
use std::time::Duration;

/// How a thread waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Idle {
    /// Polls again at once: for a thread with a core of its own.
    Spin,
    /// Gives its core to others, and sleeps when nothing comes for long: for
    /// machines with fewer cores than threads.
    Yield,
}

/// Empty rounds before the core is given away.
const PATIENCE: u32 = 8;
/// Empty rounds before the thread sleeps.
const BOREDOM: u32 = 64;
/// How long it sleeps then.
const NAP: Duration = Duration::from_micros(50);

/// Counts empty rounds.
#[derive(Debug)]
pub(crate) struct Waiter {
    idle: Idle,
    empty: u32,
}

impl Waiter {
    pub(crate) fn new(idle: Idle) -> Self {
        Self { idle, empty: 0 }
    }

    /// Told after every round how many packets it found.
    #[inline]
    pub(crate) fn round(&mut self, found: usize) {
        if found > 0 {
            self.empty = 0;
            return;
        }
        std::hint::spin_loop();
        if self.idle == Idle::Yield {
            self.wait();
        }
    }

    #[cold]
    fn wait(&mut self) {
        self.empty = self.empty.saturating_add(1);
        if self.empty > BOREDOM {
            std::thread::sleep(NAP);
        } else if self.empty > PATIENCE {
            std::thread::yield_now();
        }
    }
}
