//! The access log: what workers tell of requests, written as lines of
//! JSON by a thread of its own.
mod file;
mod line;

use std::io::{self, Write as _};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime};

use config::Config;
use splice::Record;
use state::{Counter, Counters, Shared};

use self::file::LogFile;
use self::line::Line;
use crate::clock::Clock;
use crate::error::StartError;

/// Records of one worker that may wait to be written.
const WAITING: usize = 2048;
/// How long the thread rests when nothing waits. A worker with 100,000 requests a second
/// fills a tenth of its ring meanwhile.
const REST: Duration = Duration::from_millis(2);
/// How often is looked whether the file has been moved away.
const LOOK: Duration = Duration::from_secs(1);

/// Where a thread leaves its records.
pub(crate) type ForLog = rtrb::Producer<Record>;

/// The way of one thread's records to the log that `config` wants, and its other end.
pub(crate) fn ring(config: &Config) -> Option<(ForLog, rtrb::Consumer<Record>)> {
    config.access_log.as_ref().map(|_| rtrb::RingBuffer::new(WAITING))
}

/// The thread that writes.
pub(crate) struct AccessLog {
    file: LogFile,
    rings: Vec<rtrb::Consumer<Record>>,
    shared: Arc<Shared>,
    counters: Arc<Counters>,
    /// Whether the last attempt to write has failed, which was said.
    is_failing: bool,
}

impl AccessLog {
    /// The access log that `config` wants, if it wants one. Its file is opened here, so that
    /// one that can't be written is an error at the start.
    ///
    /// # Errors
    /// The file can't be opened.
    pub(crate) fn new(config: &Config, shared: &Arc<Shared>) -> Result<Option<Self>, StartError> {
        let Some(wanted) = &config.access_log else { return Ok(None) };
        Ok(Some(Self {
            file: LogFile::open(&wanted.file)
                .map_err(|error| StartError::AccessLog { path: wanted.file.clone(), error })?,
            rings: Vec::new(),
            shared: Arc::clone(shared),
            counters: Arc::default(),
            is_failing: false,
        }))
    }

    /// Reads these rings.
    pub(crate) fn read(&mut self, rings: impl IntoIterator<Item = rtrb::Consumer<Record>>) {
        self.rings.extend(rings);
    }

    /// Its counters.
    pub(crate) fn counters(&self) -> Arc<Counters> {
        Arc::clone(&self.counters)
    }

    /// Writes until `stop`, and then what still waits.
    pub(crate) fn run(mut self, clock: Clock, stop: &AtomicBool) {
        let mut looked = Instant::now();
        loop {
            let stops = stop.load(Ordering::Relaxed);
            let found = self.turn(clock);
            if looked.elapsed() >= LOOK {
                looked = Instant::now();
                let followed = self.file.follow();
                self.note(followed);
            }
            match (found, stops) {
                (0, true) => return,
                (0, false) => std::thread::sleep(REST),
                _ => {}
            }
        }
    }

    /// Writes what waits; how many records that are.
    fn turn(&mut self, clock: Clock) -> usize {
        let (now, now_ms) = (SystemTime::now(), clock.now_ms());
        let snapshot = self.shared.snapshot();
        let mut text = Vec::new();
        let mut found = 0;
        for ring in &mut self.rings {
            while found < WAITING
                && let Ok(record) = ring.pop()
            {
                let age = Duration::from_millis(now_ms.saturating_sub(record.at_ms));
                let at = now.checked_sub(age).unwrap_or(now);
                let line = Line::new(&record, at, &snapshot.services);
                if serde_json::to_writer(&mut text, &line).is_ok() {
                    text.push(b'\n');
                }
                found += 1;
            }
        }
        if found > 0 {
            let written = self.file.write_all(&text);
            let counter = match &written {
                Ok(()) => Counter::AccessLogged,
                Err(_) => Counter::AccessLogLost,
            };
            self.counters.add(counter, found as u64);
            self.note(written);
        }
        found
    }

    /// Says once that the file can't be written, and once that it can be again.
    fn note(&mut self, result: io::Result<()>) {
        let path = self.file.path().display();
        match (result, self.is_failing) {
            (Err(error), false) => {
                tracing::error!("the access log {path} cannot be written: {error}");
                self.is_failing = true;
            }
            (Ok(()), true) => {
                tracing::info!("the access log {path} is written again");
                self.is_failing = false;
            }
            _ => {}
        }
    }
}
