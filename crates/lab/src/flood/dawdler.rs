//! Slow clients: each sends a request byte by byte, one a second, and opens its connection
//! anew when it has been told that this is too slow.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use clap::Args;
use serde::{Deserialize, Serialize};

use crate::topology::{Family, WEB_PORT, vip};
use crate::{LabError, Stop};

/// Threads that have their share of the clients each.
const THREADS: usize = 16;
/// Time between two bytes of a client.
const PAUSE: Duration = Duration::from_secs(1);
/// How long a handshake may take.
const PATIENCE: Duration = Duration::from_secs(10);
/// What they send, never to its end.
const REQUEST: &[u8] =
    b"GET /slow HTTP/1.1\r\nHost: slow.lab\r\nUser-Agent: a very slow client\r\n";

/// What the slow clients are to do.
#[derive(Debug, Clone, Args)]
pub struct Dawdler {
    /// Clients at a time
    #[arg(long)]
    clients: usize,
    /// The file that is made when all have a connection
    #[arg(long)]
    ready: PathBuf,
}

/// What became of their connections.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct Dawdled {
    /// Connections opened, and those that could not be.
    pub(crate) opened: u64,
    pub(crate) refused: u64,
    /// Those that were answered 408, and those that were reset or ended otherwise.
    pub(crate) told: u64,
    pub(crate) reset: u64,
}

impl Dawdled {
    const fn add(&mut self, other: &Self) {
        self.opened += other.opened;
        self.refused += other.refused;
        self.told += other.told;
        self.reset += other.reset;
    }
}

/// One client.
#[derive(Default)]
struct Client {
    stream: Option<TcpStream>,
    sent: usize,
}

impl Dawdler {
    /// Is slow until the stop; prints what became of the connections.
    ///
    /// # Errors
    /// The file can't be written.
    pub fn run(&self, stop: &Stop) -> Result<bool, LabError> {
        let (all, standing) = (Mutex::new(Dawdled::default()), AtomicUsize::new(0));
        std::thread::scope(|scope| -> Result<(), LabError> {
            for number in 0..THREADS {
                let (all, standing) = (&all, &standing);
                let own = self.clients / THREADS + usize::from(number < self.clients % THREADS);
                scope.spawn(move || {
                    let seen = dawdle(own, number, standing, stop);
                    all.lock().unwrap_or_else(std::sync::PoisonError::into_inner).add(&seen);
                });
            }
            while standing.load(Ordering::Relaxed) < self.clients {
                if stop.sleep(Duration::from_millis(50)).is_err() {
                    return Ok(());
                }
            }
            let what = || LabError::io(format!("write {}", self.ready.display()));
            std::fs::write(&self.ready, "").map_err(what())
        })?;
        let seen = all.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
        println!("{}", serde_json::json!(seen));
        Ok(true)
    }
}

/// `count` clients, which take turns within [`PAUSE`].
fn dawdle(count: usize, number: usize, standing: &AtomicUsize, stop: &Stop) -> Dawdled {
    let mut seen = Dawdled::default();
    let family = if number % 2 == 0 { Family::V4 } else { Family::V6 };
    let to = SocketAddr::new(vip(family), WEB_PORT);
    let mut clients: Vec<Client> = (0..count).map(|_| Client::default()).collect();
    let mut first = true;
    while !stop.requested() {
        let begin = Instant::now();
        for (at, client) in clients.iter_mut().enumerate() {
            // In the first turn there is nothing to wait for.
            let due = begin + PAUSE * at as u32 / count.max(1) as u32;
            if !first && stop.sleep(due.saturating_duration_since(Instant::now())).is_err() {
                return seen;
            }
            client.go_on(to, &mut seen);
            if first {
                standing.fetch_add(1, Ordering::Relaxed);
            }
        }
        let rest = (begin + PAUSE).saturating_duration_since(Instant::now());
        if stop.sleep(rest).is_err() {
            break;
        }
        first = false;
    }
    seen
}

impl Client {
    /// Sends another byte, on another connection if the last one has ended.
    fn go_on(&mut self, to: SocketAddr, seen: &mut Dawdled) {
        if let Some(stream) = &mut self.stream
            && let Some(told) = end_of(stream)
        {
            *(if told { &mut seen.told } else { &mut seen.reset }) += 1;
            self.stream = None;
        }
        if self.stream.is_none() {
            match open(to) {
                Ok(stream) => {
                    (self.stream, self.sent, seen.opened) = (Some(stream), 0, seen.opened + 1)
                }
                Err(_) => seen.refused += 1,
            }
        }
        let Some(stream) = &mut self.stream else { return };
        let byte = REQUEST.get(self.sent..=self.sent).unwrap_or(b"x");
        // An error shows when its end is read.
        if stream.write(byte).is_ok() {
            self.sent += 1;
        }
    }
}

fn open(to: SocketAddr) -> std::io::Result<TcpStream> {
    let stream = TcpStream::connect_timeout(&to, PATIENCE)?;
    stream.set_nodelay(true)?;
    stream.set_nonblocking(true)?;
    Ok(stream)
}

/// Whether the connection has ended, and if so, whether by the answer 408.
fn end_of(stream: &mut TcpStream) -> Option<bool> {
    let mut bytes = [0; 64];
    match stream.read(&mut bytes) {
        Ok(0) => Some(false),
        Ok(_) => Some(bytes.starts_with(b"HTTP/1.1 408 ")),
        Err(error) if error.kind() == ErrorKind::WouldBlock => None,
        Err(_) => Some(false),
    }
}
