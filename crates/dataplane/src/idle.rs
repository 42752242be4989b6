//! What a thread does when it finds nothing: a polling thread naps, a slow one rests.
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread::Thread;
use std::time::{Duration, Instant};

/// How a polling thread waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Idle {
    /// Polls again at once: for a thread with a core of its own.
    Spin,
    /// Gives its core to others, and naps when nothing comes for long: for
    /// machines with fewer cores than threads.
    Yield,
}

/// Empty rounds before the core is given away.
const PATIENCE: u32 = 8;
/// Empty rounds before the thread naps.
const BOREDOM: u32 = 64;
/// A nap from which nobody wakes the thread: packets wait for its end.
const NAP: Duration = Duration::from_micros(50);
/// The longest nap of a thread that is woken for packets.
const LONGEST_NAP: Duration = Duration::from_millis(4);

/// Wakes a polling thread from its nap.
#[derive(Debug, Default)]
pub(crate) struct Bell(OnceLock<Thread>);

impl Bell {
    /// Wakes the thread, by a system call only if it naps. A thread that is awake looks once
    /// more before its next nap.
    pub(crate) fn ring(&self) {
        if let Some(thread) = self.0.get() {
            thread.unpark();
        }
    }

    /// From now on it wakes this thread.
    fn hang(&self) {
        // An error: it hangs here.
        let _ = self.0.set(std::thread::current());
    }
}

/// What one polling thread has slept.
#[derive(Debug, Default)]
pub(crate) struct Naps {
    count: AtomicU64,
    ns: AtomicU64,
}

impl Naps {
    /// Naps, and the nanoseconds of all of them together.
    pub(crate) fn read(&self) -> (u64, u64) {
        (self.count.load(Ordering::Relaxed), self.ns.load(Ordering::Relaxed))
    }

    /// Only the thread itself writes.
    fn add(&self, time: Duration) {
        let ns = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        let add = |own: &AtomicU64, by: u64| {
            own.store(own.load(Ordering::Relaxed).wrapping_add(by), Ordering::Relaxed);
        };
        add(&self.count, 1);
        add(&self.ns, ns);
    }
}

/// Counts empty rounds.
#[derive(Debug)]
pub(crate) struct Waiter {
    idle: Idle,
    empty: u32,
    /// Rung by every thread that gives this one packets; `None`: not all of them do.
    bell: Option<Arc<Bell>>,
    naps: Arc<Naps>,
    next: Duration,
}

impl Waiter {
    /// Counts the rounds of the calling thread.
    pub(crate) fn new(idle: Idle, bell: Option<Arc<Bell>>, naps: Arc<Naps>) -> Self {
        if let Some(bell) = &bell {
            bell.hang();
        }
        if idle == Idle::Yield {
            // The kernel lets a thread sleep up to 50 µs longer than it asks for, which is as
            // long as a nap.
            let _ = nix::sys::prctl::set_timerslack(1);
        }
        Self { idle, empty: 0, bell, naps, next: NAP }
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
            self.nap();
        } else if self.empty > PATIENCE {
            self.next = NAP;
            std::thread::yield_now();
        }
    }

    fn nap(&mut self) {
        let began = Instant::now();
        if self.bell.is_some() {
            std::thread::park_timeout(self.next);
            self.next = (self.next * 2).min(LONGEST_NAP);
        } else {
            std::thread::sleep(NAP);
        }
        self.naps.add(began.elapsed());
    }
}

/// How long a thread for slow work rests between two turns: longer and longer while its
/// turns find nothing to do.
#[derive(Debug)]
pub(crate) struct Rest {
    shortest: Duration,
    longest: Duration,
    quiet: u32,
    next: Duration,
}

/// Turns that find nothing before the rests become longer.
const QUIET: u32 = 64;

impl Rest {
    /// Rests between `shortest` and `longest`.
    pub(crate) const fn new(shortest: Duration, longest: Duration) -> Self {
        Self { shortest, longest, quiet: 0, next: shortest }
    }

    /// How long to rest after a turn; `busy`: whether it found anything to do.
    pub(crate) fn after(&mut self, busy: bool) -> Duration {
        if busy {
            (self.quiet, self.next) = (0, self.shortest);
            return self.shortest;
        }
        self.quiet = self.quiet.saturating_add(1);
        if self.quiet > QUIET {
            self.next = (self.next * 2).min(self.longest);
        }
        self.next
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Without the bell the nap would last for an hour.
    #[test]
    fn a_bell_ends_a_nap_also_if_it_rings_before() {
        let (bell, naps) = (Arc::new(Bell::default()), Arc::new(Naps::default()));
        bell.ring();
        let (own, counts) = (Arc::clone(&bell), Arc::clone(&naps));
        let (ready, is_ready) = std::sync::mpsc::channel();
        let sleeper = std::thread::spawn(move || {
            let mut waiter = Waiter::new(Idle::Yield, Some(own), counts);
            ready.send(()).unwrap();
            waiter.next = Duration::from_secs(3600);
            waiter.nap();
        });
        is_ready.recv().unwrap();
        bell.ring();
        sleeper.join().unwrap();
        assert_eq!(naps.read().0, 1);
    }

    #[test]
    fn a_thread_naps_after_rounds_without_packets_and_naps_grow_only_where_a_bell_rings() {
        for bell in [None, Some(Arc::new(Bell::default()))] {
            let naps = Arc::new(Naps::default());
            let rings = bell.is_some();
            let mut waiter = Waiter::new(Idle::Yield, bell, Arc::clone(&naps));
            for round in 1..=BOREDOM + 9 {
                waiter.round(0);
                assert_eq!(naps.read().0, u64::from(round.saturating_sub(BOREDOM)));
            }
            assert_eq!(waiter.next, if rings { LONGEST_NAP } else { NAP });
            waiter.round(1);
            (0..BOREDOM).for_each(|_| waiter.round(0));
            assert_eq!((naps.read().0, waiter.next), (9, NAP), "the count begins anew");
            let mut waiter = Waiter::new(Idle::Spin, None, Arc::clone(&naps));
            (0..1000).for_each(|_| waiter.round(0));
            assert_eq!(naps.read().0, 9);
        }
    }

    #[test]
    fn rests_grow_while_nothing_happens() {
        let ms = Duration::from_millis;
        let mut rest = Rest::new(ms(1), ms(10));
        for _ in 0..3 {
            assert!((0..QUIET).all(|_| rest.after(false) == ms(1)));
            let grown: Vec<Duration> = (0..5).map(|_| rest.after(false)).collect();
            assert_eq!(grown, [ms(2), ms(4), ms(8), ms(10), ms(10)]);
            assert_eq!(rest.after(true), ms(1));
        }
    }
}
