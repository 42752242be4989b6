//! Threads for handshakes, and how many may wait for them.
use std::collections::{HashMap, VecDeque};
use std::net::{IpAddr, Ipv6Addr};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use crate::handshake::{Handshake, HandshakeError, Progress};

/// How much waits at most.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PoolSettings {
    /// Threads.
    pub threads: usize,
    /// Handshakes that wait for a thread, of one service.
    pub waiting: usize,
    /// Of those, of one client network: a /24 or a /64.
    pub by_network: usize,
}

impl Default for PoolSettings {
    /// One thread; 4096 that wait, which is a second's worth of ECDSA handshakes of one
    /// core, and an eighth of it for one network.
    fn default() -> Self {
        Self { threads: 1, waiting: 4096, by_network: 512 }
    }
}

/// A handshake that goes to the pool, with what the client has said since.
#[derive(Debug)]
pub struct Started {
    /// Whatever the caller knows the connection by.
    pub connection: u64,
    /// The service, whose handshakes are bounded by themselves.
    pub service: u32,
    /// The client.
    pub client: IpAddr,
    /// The handshake.
    pub handshake: Box<Handshake>,
    /// The client's bytes.
    pub bytes: Vec<u8>,
}

/// A handshake that comes back.
#[derive(Debug)]
pub struct Finished {
    /// As it was started.
    pub connection: u64,
    /// For the client.
    pub out: Vec<u8>,
    /// How far it is.
    pub progress: Result<Progress, HandshakeError>,
}

/// Why a handshake is not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// As many handshakes of the service wait as may.
    #[error("as many handshakes of the service wait as may")]
    Service,
    /// As many handshakes of the client's network wait as may.
    #[error("as many handshakes of the client's network wait as may")]
    Network,
}

/// There is no pool.
#[derive(Debug, thiserror::Error)]
#[error("no thread for handshakes: {0}")]
pub struct PoolError(#[from] std::io::Error);

/// The threads. They end when it is dropped; what waits is forgotten.
#[derive(Debug)]
pub struct Pool {
    settings: PoolSettings,
    shared: Arc<Shared>,
    finished: Receiver<Finished>,
    threads: Vec<JoinHandle<()>>,
}

#[derive(Debug, Default)]
struct Shared {
    queue: Mutex<Queue>,
    more: Condvar,
}

/// What waits.
#[derive(Debug, Default)]
struct Queue {
    started: VecDeque<Started>,
    by_service: HashMap<u32, usize>,
    by_network: HashMap<(u32, IpAddr), usize>,
    over: bool,
}

impl Pool {
    /// Starts the threads.
    ///
    /// # Errors
    /// The system gives no thread.
    pub fn new(settings: PoolSettings) -> Result<Self, PoolError> {
        Self::on(settings, || {})
    }

    /// As [`Pool::new`]; each thread calls `begin` first, to go to its core.
    ///
    /// # Errors
    /// As [`Pool::new`].
    pub fn on(
        settings: PoolSettings,
        begin: impl Fn() + Clone + Send + 'static,
    ) -> Result<Self, PoolError> {
        let shared = Arc::<Shared>::default();
        let (sender, finished) = channel();
        let mut pool = Self { settings, shared, finished, threads: Vec::new() };
        for number in 0..settings.threads.max(1) {
            let (shared, sender) = (Arc::clone(&pool.shared), sender.clone());
            let thread = std::thread::Builder::new().name(format!("handshake{number}"));
            let begin = begin.clone();
            let run = move || {
                begin();
                shared.work(&sender);
            };
            pool.threads.push(thread.spawn(run)?);
        }
        Ok(pool)
    }

    /// Takes a handshake, which comes back by [`Pool::finished`].
    ///
    /// # Errors
    /// [`Refused`], with the handshake: too many wait.
    pub fn start(&self, started: Started) -> Result<(), (Refused, Box<Started>)> {
        let network = (started.service, network(started.client));
        let mut queue = self.shared.lock();
        let waiting = |map: Option<&usize>| map.copied().unwrap_or(0);
        if waiting(queue.by_service.get(&started.service)) >= self.settings.waiting {
            return Err((Refused::Service, Box::new(started)));
        }
        if waiting(queue.by_network.get(&network)) >= self.settings.by_network {
            return Err((Refused::Network, Box::new(started)));
        }
        *queue.by_service.entry(started.service).or_insert(0) += 1;
        *queue.by_network.entry(network).or_insert(0) += 1;
        queue.started.push_back(started);
        drop(queue);
        self.shared.more.notify_one();
        Ok(())
    }

    /// The next handshake that is back; `None`: none is.
    #[must_use]
    pub fn finished(&self) -> Option<Finished> {
        self.finished.try_recv().ok()
    }

    /// Handshakes that wait for a thread.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.shared.lock().started.len()
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        self.shared.lock().over = true;
        self.shared.more.notify_all();
        for thread in self.threads.drain(..) {
            // A thread that has panicked has said so.
            let _ = thread.join();
        }
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn next(&self) -> Option<Started> {
        let mut queue = self.lock();
        loop {
            if queue.over {
                return None;
            }
            if let Some(started) = queue.started.pop_front() {
                let network = (started.service, network(started.client));
                fewer(&mut queue.by_service, &started.service);
                fewer(&mut queue.by_network, &network);
                return Some(started);
            }
            queue = self.more.wait(queue).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn work(&self, finished: &Sender<Finished>) {
        while let Some(Started { connection, handshake, bytes, .. }) = self.next() {
            let mut out = Vec::new();
            // A panic costs its client the connection, and nobody else.
            let feed = AssertUnwindSafe(|| handshake.feed(&bytes, &mut out));
            let progress = catch_unwind(feed).unwrap_or(Err(HandshakeError::Panicked));
            if finished.send(Finished { connection, out, progress }).is_err() {
                return;
            }
        }
    }
}

/// Counts one down, and forgets it at 0.
fn fewer<K: std::hash::Hash + Eq>(map: &mut HashMap<K, usize>, key: &K) {
    if let Some(count) = map.get_mut(key) {
        *count -= 1;
        if *count == 0 {
            map.remove(key);
        }
    }
}

/// The network that a client's share counts for.
fn network(client: IpAddr) -> IpAddr {
    match client {
        IpAddr::V4(client) => {
            let [a, b, c, _] = client.octets();
            IpAddr::from([a, b, c, 0])
        }
        IpAddr::V6(client) => IpAddr::V6(Ipv6Addr::from(u128::from(client) >> 64 << 64)),
    }
}
