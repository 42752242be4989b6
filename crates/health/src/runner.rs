//! The thread that probes.
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender};
use std::time::{Duration, Instant};

use tokio::sync::{Semaphore, mpsc};

use crate::{Board, Change, Fleet, Outcome, Target, TargetKey, Ticket, probe};

/// Probes that are under way at a time, at most: each has a socket.
const AT_ONCE: usize = 512;
/// How long the thread waits before it looks whether it is to end, or to check others.
const LOOK: Duration = Duration::from_millis(20);

/// A change of a backend, from the thread that probes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Told {
    /// Which backend.
    pub key: TargetKey,
    /// What it is now.
    pub change: Change,
}

/// Checks the last targets that came through `wanted` and tells the changes, until
/// `stop`. What is known of each target is on `board`.
///
/// # Errors
/// The kernel gives no descriptors for the event loop.
pub fn run(
    (wanted, told): (&Receiver<Vec<Target>>, &Sender<Told>),
    board: &Board,
    seed: u64,
    stop: &AtomicBool,
) -> io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let mut prober = Prober::new(board, told, seed);
        while !stop.load(Ordering::Relaxed) {
            if let Some(targets) = wanted.try_iter().last() {
                prober.set(targets);
            }
            prober.turn().await;
        }
    });
    // A program that does not end must not keep the process.
    runtime.shutdown_background();
    Ok(())
}

struct Prober<'a> {
    fleet: Fleet,
    board: &'a Board,
    told: &'a Sender<Told>,
    began: Instant,
    limit: Arc<Semaphore>,
    ended: mpsc::UnboundedSender<(Ticket, Outcome)>,
    endings: mpsc::UnboundedReceiver<(Ticket, Outcome)>,
}

impl<'a> Prober<'a> {
    fn new(board: &'a Board, told: &'a Sender<Told>, seed: u64) -> Self {
        let (ended, endings) = mpsc::unbounded_channel();
        let (fleet, began) = (Fleet::new(seed), Instant::now());
        let limit = Arc::new(Semaphore::new(AT_ONCE));
        Self { fleet, board, told, began, limit, ended, endings }
    }

    fn now_ms(&self) -> u64 {
        u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    fn set(&mut self, targets: Vec<Target>) {
        let now_ms = self.now_ms();
        self.fleet.set(targets, now_ms);
        self.board.keep(self.fleet.keys().cloned(), now_ms);
    }

    /// Begins the probes that are due, and waits for the next or for an answer.
    async fn turn(&mut self) {
        let now_ms = self.now_ms();
        let (begin, changes) = self.fleet.tick(now_ms);
        begin.into_iter().for_each(|ticket| self.begin(ticket));
        for (key, change) in changes {
            self.tell(key, change, now_ms);
        }
        let due = self.fleet.due_ms().map_or(LOOK, |due_ms| {
            Duration::from_millis(due_ms.saturating_sub(now_ms).max(1)).min(LOOK)
        });
        if let Ok(Some((ticket, outcome))) = tokio::time::timeout(due, self.endings.recv()).await {
            self.end(&ticket, outcome);
            while let Ok((ticket, outcome)) = self.endings.try_recv() {
                self.end(&ticket, outcome);
            }
        }
    }

    fn begin(&self, ticket: Ticket) {
        let (limit, ended) = (Arc::clone(&self.limit), self.ended.clone());
        tokio::spawn(async move {
            // An error: the semaphore is closed, which it never is.
            let Ok(_permit) = limit.acquire().await else { return };
            let outcome = probe::probe(&ticket.target).await;
            // An error: the thread ends.
            let _ = ended.send((ticket, outcome));
        });
    }

    fn end(&mut self, ticket: &Ticket, outcome: Outcome) {
        let (now_ms, key) = (self.now_ms(), &ticket.target.key);
        let (counts, change) = self.fleet.finish(ticket, outcome.clone(), now_ms);
        if counts {
            self.board.note(key, &outcome);
        }
        if let Some(change) = change {
            self.tell(key.clone(), change, now_ms);
        }
    }

    fn tell(&self, key: TargetKey, change: Change, now_ms: u64) {
        self.board.change(&key, &change, now_ms);
        // An error: nobody listens any more, and the thread ends soon.
        let _ = self.told.send(Told { key, change });
    }
}
