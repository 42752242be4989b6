//! The threads that run, and how they end.
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::error::StartError;

/// How long a driver may take for one call when all rules are destroyed at the end.
const PATIENCE: Duration = Duration::from_secs(30);
/// How often a thread that is to end is looked at.
const LOOK: Duration = Duration::from_millis(5);

/// In which order groups of threads end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Group {
    /// The thread that changes the configuration: first, so that nothing changes any more.
    Control = 0,
    /// The thread that calls drivers for rules: while the workers still empty their
    /// queues, it takes the rules back. A driver may keep it for ever.
    Offload = 1,
    /// The thread that ages connections and resolves next hops.
    Keeper = 2,
    /// Emulated NICs and workers.
    Polling = 3,
}

const GROUPS: [Group; 4] = [Group::Control, Group::Offload, Group::Keeper, Group::Polling];

/// All threads of the load balancer. Ends them when it is dropped.
pub(crate) struct Threads {
    threads: Vec<(Group, JoinHandle<()>)>,
    /// Calls from which drivers have returned while [`Group::Offload`] ends.
    calls: Arc<AtomicU64>,
    stops: [Arc<AtomicBool>; GROUPS.len()],
    patience: Duration,
}

impl Default for Threads {
    fn default() -> Self {
        Self {
            threads: Vec::new(),
            calls: Arc::default(),
            stops: Default::default(),
            patience: PATIENCE,
        }
    }
}

impl Threads {
    /// [`Group::Offload`] counts in `calls` the calls from which drivers have
    /// returned while it ends: it is waited for as long as they do.
    pub(crate) fn watch(&mut self, calls: Arc<AtomicU64>) {
        self.calls = calls;
    }

    /// Starts a thread that runs until the flag it is given.
    pub(crate) fn start(
        &mut self,
        group: Group,
        name: &str,
        run: impl FnOnce(&AtomicBool) + Send + 'static,
    ) -> Result<(), StartError> {
        let [control, offload, keeper, polling] = &self.stops;
        let stop = Arc::clone(match group {
            Group::Control => control,
            Group::Offload => offload,
            Group::Keeper => keeper,
            Group::Polling => polling,
        });
        let thread = std::thread::Builder::new()
            .name(name.to_owned())
            .spawn(move || run(&stop))
            .map_err(|source| StartError::Thread { name: name.to_owned(), source })?;
        self.threads.push((group, thread));
        Ok(())
    }

    /// The name of a thread that has ended before it was told to.
    pub(crate) fn failed(&self) -> Option<&str> {
        let mut all = self.threads.iter().map(|(_, thread)| thread);
        all.find(|thread| thread.is_finished()).map(name)
    }

    /// Ends all threads, group by group. `false` if one is still inside a
    /// driver: it is left behind, and DPDK must not be torn down under it.
    #[must_use]
    pub(crate) fn end(&mut self) -> bool {
        let mut all = true;
        for (group, stop) in GROUPS.into_iter().zip(&self.stops) {
            stop.store(true, Ordering::Relaxed);
            let threads = std::mem::take(&mut self.threads).into_iter();
            let (ending, later): (Vec<_>, _) = threads.partition(|(own, _)| *own == group);
            self.threads = later;
            for (_, thread) in ending {
                let watch = Watch::new(&self.calls, self.patience, Instant::now());
                all &= join(thread, (group == Group::Offload).then_some(watch));
            }
        }
        all
    }
}

impl Drop for Threads {
    fn drop(&mut self) {
        let _ = self.end();
    }
}

fn name(thread: &JoinHandle<()>) -> &str {
    thread.thread().name().unwrap_or("without a name")
}

/// Whether a driver gets on: its calls return, one after the other.
struct Watch<'a> {
    calls: &'a AtomicU64,
    patience: Duration,
    /// The count that was seen last, and when it was first seen.
    last: u64,
    since: Instant,
}

impl<'a> Watch<'a> {
    fn new(calls: &'a AtomicU64, patience: Duration, now: Instant) -> Self {
        Self { calls, patience, last: calls.load(Ordering::Relaxed), since: now }
    }

    /// Whether the count has not moved for as long as the patience lasts.
    fn has_stalled(&mut self, now: Instant) -> bool {
        let calls = self.calls.load(Ordering::Relaxed);
        if calls != self.last {
            (self.last, self.since) = (calls, now);
        }
        now.duration_since(self.since) >= self.patience
    }
}

/// Waits for the end of `thread`, with a watch until that has stalled. Whether the
/// thread has ended.
fn join(thread: JoinHandle<()>, watch: Option<Watch<'_>>) -> bool {
    let name = name(&thread).to_owned();
    if let Some(mut watch) = watch {
        while !thread.is_finished() {
            if watch.has_stalled(Instant::now()) {
                let seconds = watch.patience.as_secs();
                tracing::error!(
                    thread = name,
                    seconds,
                    "a driver has not returned from a call: rules may stay in the NIC; the process ends without waiting for the driver"
                );
                return false;
            }
            std::thread::sleep(LOOK);
        }
    }
    if thread.join().is_err() {
        tracing::error!(thread = name, "the thread had failed; its message is on stderr");
    }
    true
}

#[cfg(test)]
mod tests {
    use std::sync::{Mutex, mpsc};

    use super::*;

    fn until(stop: &AtomicBool) {
        while !stop.load(Ordering::Relaxed) {
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    #[test]
    fn groups_end_one_after_the_other_and_all_are_joined() {
        let ended = Arc::new(Mutex::new(Vec::new()));
        let mut threads = Threads::default();
        for (group, name) in [
            (Group::Polling, "nic0"),
            (Group::Keeper, "keeper"),
            (Group::Polling, "worker0"),
            (Group::Control, "control"),
            (Group::Offload, "offload"),
        ] {
            let ended = Arc::clone(&ended);
            let run = move |stop: &AtomicBool| {
                until(stop);
                // The next group must not have been told yet, however long this takes.
                std::thread::sleep(Duration::from_millis(30));
                ended.lock().unwrap().push(name);
            };
            threads.start(group, name, run).unwrap();
        }
        assert_eq!(threads.failed(), None);
        assert!(threads.end());
        let ended = ended.lock().unwrap();
        assert_eq!((ended.len(), &ended[..3]), (5, &["control", "offload", "keeper"][..]));
    }

    #[test]
    fn a_driver_that_hangs_is_not_waited_for() {
        let (release, held) = mpsc::channel::<()>();
        let ended = Arc::new(AtomicBool::new(false));
        let mut threads = Threads::default();
        threads.patience = Duration::from_millis(20);
        threads.start(Group::Offload, "offload", move |_| _ = held.recv()).unwrap();
        let worker = Arc::clone(&ended);
        let work = move |stop: &AtomicBool| {
            until(stop);
            worker.store(true, Ordering::Relaxed);
        };
        threads.start(Group::Polling, "worker0", work).unwrap();
        assert!(!threads.end(), "the driver still has the thread");
        assert!(ended.load(Ordering::Relaxed), "all others have ended");
        drop(release);
    }

    #[test]
    fn a_driver_that_gets_on_is_waited_for() {
        let calls = AtomicU64::new(0);
        let began = Instant::now();
        let after = |seconds| began + Duration::from_secs(seconds);
        let mut watch = Watch::new(&calls, Duration::from_secs(30), began);
        for seconds in (29..300).step_by(29) {
            assert!(!watch.has_stalled(after(seconds)), "{seconds} s");
            calls.fetch_add(1, Ordering::Relaxed);
        }
        assert!(!watch.has_stalled(after(300)), "the last call has just returned");
        assert!(!watch.has_stalled(after(329)));
        assert!(watch.has_stalled(after(330)));
    }

    #[test]
    fn a_thread_that_panics_is_named() {
        let mut threads = Threads::default();
        threads.start(Group::Polling, "worker0", until).unwrap();
        threads.start(Group::Polling, "worker1", |_| panic!("a bug, on purpose")).unwrap();
        while threads.failed().is_none() {
            std::thread::sleep(Duration::from_millis(1));
        }
        assert_eq!(threads.failed(), Some("worker1"));
    }
}
