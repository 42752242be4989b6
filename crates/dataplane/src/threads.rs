//! The threads that run, and how they end.
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use crate::error::EngineError;

/// All threads of the load balancer. Ends them when it is dropped: the keeper
/// first, so that the workers still empty their queues while it takes the
/// rules back.
#[derive(Default)]
pub(crate) struct Running {
    keeper: Option<JoinHandle<()>>,
    polling: Vec<JoinHandle<()>>,
    stop_keeper: Arc<AtomicBool>,
    stop_polling: Arc<AtomicBool>,
}

impl Running {
    /// Starts a thread that runs until the flag it is given.
    pub(crate) fn start_polling(
        &mut self,
        name: &str,
        run: impl FnOnce(&AtomicBool) + Send + 'static,
    ) -> Result<(), EngineError> {
        self.polling.push(spawn(name, &self.stop_polling, run)?);
        Ok(())
    }

    /// Starts the keeper.
    pub(crate) fn start_keeper(
        &mut self,
        run: impl FnOnce(&AtomicBool) + Send + 'static,
    ) -> Result<(), EngineError> {
        self.keeper = Some(spawn("keeper", &self.stop_keeper, run)?);
        Ok(())
    }

    /// The name of a thread that has ended although nobody asked it to.
    pub(crate) fn failed(&self) -> Option<&str> {
        let mut all = self.polling.iter().chain(&self.keeper);
        all.find(|thread| thread.is_finished()).map(name)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.stop_keeper.store(true, Ordering::Relaxed);
        self.keeper.take().into_iter().for_each(join);
        self.stop_polling.store(true, Ordering::Relaxed);
        self.polling.drain(..).for_each(join);
    }
}

fn spawn(
    name: &str,
    stop: &Arc<AtomicBool>,
    run: impl FnOnce(&AtomicBool) + Send + 'static,
) -> Result<JoinHandle<()>, EngineError> {
    let stop = Arc::clone(stop);
    std::thread::Builder::new()
        .name(name.to_owned())
        .spawn(move || run(&stop))
        .map_err(|source| EngineError::Thread { name: name.to_owned(), source })
}

fn name(thread: &JoinHandle<()>) -> &str {
    thread.thread().name().unwrap_or("without a name")
}

fn join(thread: JoinHandle<()>) {
    let name = name(&thread).to_owned();
    if thread.join().is_err() {
        tracing::error!(thread = name, "the thread had failed; its message is on stderr");
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;
    use std::time::Duration;

    use super::*;

    fn until(stop: &AtomicBool) {
        while !stop.load(Ordering::Relaxed) {
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    #[test]
    fn the_keeper_ends_first_and_all_are_joined() {
        let ended = Arc::new(Mutex::new(Vec::new()));
        let mut running = Running::default();
        for name in ["nic0", "worker0"] {
            let ended = Arc::clone(&ended);
            let run = move |stop: &AtomicBool| {
                until(stop);
                ended.lock().unwrap().push(name);
            };
            running.start_polling(name, run).unwrap();
        }
        let keepers = Arc::clone(&ended);
        let keep = move |stop: &AtomicBool| {
            until(stop);
            // The workers must not have been told yet, however long this takes.
            std::thread::sleep(Duration::from_millis(30));
            keepers.lock().unwrap().push("keeper");
        };
        running.start_keeper(keep).unwrap();
        assert_eq!(running.failed(), None);
        drop(running);
        let ended = ended.lock().unwrap();
        assert_eq!((ended.len(), ended[0]), (3, "keeper"));
    }

    #[test]
    fn a_thread_that_panics_is_named() {
        let mut running = Running::default();
        running.start_polling("worker0", until).unwrap();
        running.start_polling("worker1", |_| panic!("a bug, on purpose")).unwrap();
        while running.failed().is_none() {
            std::thread::sleep(Duration::from_millis(1));
        }
        assert_eq!(running.failed(), Some("worker1"));
    }
}
