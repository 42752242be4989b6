//! What TLS costs a balancer: HNLB beside HAProxy and nginx, which all end TLS with the same
//! certificate, in the same lab with the same clients and backends.
//!
//! HAProxy and nginx have one thread for everything and are charged with the time of their
//! process. HNLB is charged with its worker's time times util+, as in [`crate::http_bench`],
//! and with all time of its threads `terminator` and `handshake0`, also where they find
//! nothing to do.

mod row;
mod systems;

use std::path::Path;
use std::time::Duration;

pub use row::{Row, What};

use crate::http_bench::{System, write_bodies};
use crate::load::{Connections, HttpLoad, Length};
use crate::threads::join;
use crate::{Lab, LabError, LabOptions, Stop, host};
use systems::{Running, SHAKE};

/// Connections of a load at a time, of the established ones beside a flood, and of a flood.
const OPEN: u32 = 16;
const ESTABLISHED: u32 = 4;
const FLOOD: u32 = 64;
/// Clients of resumed handshakes, which do one after the other.
const RESUMING: usize = 4;
/// Bytes of responses.
const SIZES: [usize; 3] = [0, 16 << 10, 1 << 20];
const FEW_SIZES: [usize; 2] = [0, 16 << 10];
/// The clients: of all loads but floods, and of floods.
const CLIENT: &str = "c1";
const FLOODER: &str = "c2";

/// How the measurement is run.
#[derive(Debug, Clone)]
pub struct Options {
    /// Fewer and shorter points: a functional check.
    pub quick: bool,
    /// How often each point is measured.
    pub rounds: u32,
}

impl Options {
    const fn seconds(&self) -> u64 {
        if self.quick { 1 } else { 4 }
    }

    fn sizes(&self) -> &'static [usize] {
        if self.quick { &FEW_SIZES } else { &SIZES }
    }
}

/// Runs the measurement with HNLB's program at `binary`, and gives each row to `tell` as
/// it is there.
///
/// # Errors
/// If the lab cannot be set up, a program is missing, a balancer doesn't start, or the
/// stop is requested. The lab is gone in any case.
pub fn run(
    binary: &Path,
    stop: &Stop,
    options: &Options,
    tell: &mut dyn FnMut(&Row),
) -> Result<Vec<Row>, LabError> {
    for program in ["wrk", "haproxy", "nginx", "openssl"] {
        if !host::has(program) {
            let why = format!("{program} not found; `make deps` installs it");
            return Err(LabError::Unavailable(why));
        }
    }
    let mut lab = Lab::up(LabOptions { stop: stop.clone(), ..LabOptions::default() })?;
    write_bodies(&lab, options.sizes())?;
    let certificates = crate::https::Certificates::new(&lab)?;
    let mut rows = Vec::new();
    for round in 0..options.rounds {
        for system in System::WITH_FIELDS {
            eprintln!("https: round {} of {}: {}", round + 1, options.rounds, system.name());
            let running = Running::start(system, &mut lab, binary, &certificates)?;
            for (what, bytes) in cases(options) {
                let row = measure(&mut lab, &running, what, bytes, options)?;
                tell(&row);
                rows.push(row);
            }
            running.stop(&mut lab)?;
        }
    }
    lab.down()?;
    Ok(rows)
}

/// All points of one system.
fn cases(options: &Options) -> impl Iterator<Item = (What, usize)> {
    let requests = options.sizes().iter().map(|bytes| (What::Requests, *bytes));
    [(What::Full, 0), (What::Resumed, 0)].into_iter().chain(requests).chain([(What::Flood, 0)])
}

/// One load on one system.
fn measure(
    lab: &mut Lab,
    running: &Running,
    what: What,
    bytes: usize,
    options: &Options,
) -> Result<Row, LabError> {
    // Neighbours are resolved, connections to backends are there, and clients have tickets.
    load(lab, running.system(), what, bytes, 1)?;
    let before = running.read(lab)?;
    let mut row = load(lab, running.system(), what, bytes, options.seconds())?;
    let used_ns = running.read(lab)?.since(&before);
    running.check(lab)?;
    #[allow(clippy::cast_precision_loss)]
    let done = row.done.max(1) as f64;
    row.cpu_us = used_ns / 1e3 / done;
    Ok(row)
}

/// A load, without what it costs.
fn load(
    lab: &Lab,
    system: System,
    what: What,
    bytes: usize,
    seconds: u64,
) -> Result<Row, LabError> {
    let new = Row::new(system, what, bytes);
    let asked =
        |load: &HttpLoad<'_>, client, path: &str| load.run_url(lab, client, &systems::url(path));
    let body = format!("/body{bytes}");
    match what {
        What::Full => {
            let found = asked(&HttpLoad::of(seconds, OPEN, Connections::Short), CLIENT, SHAKE)?;
            Ok(new.with(&found))
        }
        What::Requests => {
            let found = asked(&HttpLoad::of(seconds, OPEN, Connections::KeepAlive), CLIENT, &body)?;
            Ok(new.with(&found))
        }
        What::Resumed => resumed(lab, new, seconds),
        What::Flood => std::thread::scope(|scope| {
            // The flood begins before the established connections are measured, and ends
            // after them.
            let flood = HttpLoad {
                length: Length::Seconds(seconds + 2),
                ..HttpLoad::of(seconds, FLOOD, Connections::Short)
            };
            let flood = scope.spawn(move || flood.run_url(lab, FLOODER, &systems::url(SHAKE)));
            lab.stop().sleep(Duration::from_secs(1))?;
            let load = HttpLoad::of(seconds, ESTABLISHED, Connections::KeepAlive);
            let found = asked(&load, CLIENT, &body);
            let flood = join(flood)?;
            Ok(Row { flood_per_s: flood.rps, ..new.with(&found?) })
        }),
    }
}

/// Handshakes of clients that show a ticket. openssl does one after the other and says of
/// each whether its session was resumed.
fn resumed(lab: &Lab, new: Row, seconds: u64) -> Result<Row, LabError> {
    let script = format!(
        "for i in $(seq {RESUMING}); do timeout {limit} openssl s_time -connect {at} -reuse \
         -time {seconds} -www {SHAKE} 2>/dev/null & done; wait",
        at = systems::target(),
        limit = seconds + 20,
    );
    let limit = Duration::from_secs(seconds + 40);
    let output = lab.exec_for(CLIENT, &["sh", "-c", &script], limit)?.success()?;
    let (done, full) = count(&output.stdout);
    #[allow(clippy::cast_precision_loss)]
    let per_s = done as f64 / seconds as f64;
    Ok(Row { done, per_s, failed: full, ..new })
}

/// How many handshakes resumed a session, and how many that should have did not. s_time
/// writes `r` for the ones and `*` or `t` for the others between its lines of words.
fn count(stdout: &str) -> (u64, u64) {
    let marks = |line: &&str| !line.is_empty() && line.bytes().all(|byte| b"rt*".contains(&byte));
    let count = |text: &str, wanted: &[char]| text.chars().filter(|c| wanted.contains(c)).count();
    let lines = || stdout.lines().filter(marks);
    let resumed: usize = lines().map(|line| count(line, &['r'])).sum();
    let full: usize = lines().map(|line| count(line, &['t', '*'])).sum();
    (resumed as u64, full as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_marks_are_counted() {
        let text = "Collecting connection statistics for 1 seconds\nrrr*r\n\n5 connections in 0.2s; \
                    30 connections/user sec, bytes read 0\nrr\nt\n";
        assert_eq!(count(text), (6, 2));
    }
}
