//! The phases of the run: load from real clients, and what happens to the functions
//! meanwhile.

use std::net::SocketAddr;
use std::thread;
use std::time::Duration;

use serde::Serialize;

use super::attach::Attach;
use super::server::{Server, Status};
use crate::load::{self, Connections, HttpLoad, Length};
use crate::proc::{self, Signal};
use crate::threads::join;
use crate::topology::{BACKENDS, DNS_BACKEND_PORT, WEB_PORT};
use crate::{Lab, LabError, Stop};

/// What happens in the middle of a phase.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Phase {
    /// Nothing.
    Both,
    /// The first function is killed.
    Killed,
    /// The first function is there again.
    Again,
    /// The second function is stopped, and goes on at the end.
    Stopped,
}

/// The phases of a run, in order.
pub(super) const fn of(attach: Attach) -> &'static [Phase] {
    match attach {
        Attach::Vhost | Attach::Memif => {
            &[Phase::Both, Phase::Killed, Phase::Again, Phase::Stopped]
        }
        Attach::Ring => &[Phase::Both],
    }
}

/// The table's head.
pub(super) const HEAD: &str = "phase                 requests failed   p99 us downloads  wrong    \
     dns   lost   frames lost moves";

/// What a phase has shown.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Seen {
    phase: &'static str,
    requests: u64,
    failed: u64,
    p99_us: u64,
    downloads: u64,
    wrong: Vec<String>,
    dns: u64,
    dns_lost: u64,
    /// Frames that a function had when it died.
    frames_lost: u64,
    /// Frames that full queues have refused.
    refused: u64,
    moves: u64,
    mistakes: Vec<String>,
}

impl Phase {
    /// In words.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Both => "both functions",
            Self::Killed => "one killed",
            Self::Again => "started again",
            Self::Stopped => "one stopped",
        }
    }

    /// Loads the link for `seconds`.
    pub(super) fn run(
        self,
        lab: &mut Lab,
        server: &mut Server,
        seconds: u64,
    ) -> Result<Seen, LabError> {
        if self == Self::Again {
            server.start_function(lab, 0)?;
        }
        let before = server.status(lab)?;
        let victim = match self {
            Self::Killed => server.function(0).map(|pid| (pid, Signal::Kill)),
            Self::Stopped => server.function(1).map(|pid| (pid, Signal::Pause)),
            Self::Both | Self::Again => None,
        };
        let (web, files, dns) = {
            let lab = &*lab;
            let end = Stop::default();
            thread::scope(|scope| {
                let web = scope.spawn(move || {
                    let server = SocketAddr::new(BACKENDS[0].v4.into(), WEB_PORT);
                    HttpLoad::of(seconds, 8, Connections::KeepAlive).run_at(lab, "c1", server)
                });
                let (to, until) = (BACKENDS[1].v6.into(), &end);
                let files = scope.spawn(move || load::downloads(lab, "c2", to, "2M", until));
                let dns = scope.spawn(move || {
                    let server = SocketAddr::new(BACKENDS[2].v4.into(), DNS_BACKEND_PORT);
                    load::dns_at(lab, "c2", server, Length::Seconds(seconds), 4, Some(2000))
                });
                let happened = lab.stop().sleep(Duration::from_millis(seconds * 500));
                if let Some((pid, signal)) = victim {
                    proc::signal(&[pid], signal, true);
                }
                let (web, dns) = (join(web), join(dns));
                end.request();
                happened.and(Ok((web?, join(files)?, dns?)))
            })?
        };
        match self {
            Self::Killed => server.bury(lab, 0),
            Self::Stopped => {
                proc::signal(&server.function(1).into_iter().collect::<Vec<_>>(), Signal::Go, true);
            }
            Self::Both | Self::Again => {}
        }
        let after = still(lab, server)?;
        let lost = |status: &Status| status.functions.iter().map(|one| one.lost).sum::<u64>();
        let refused = |status: &Status| {
            let full = ["function_queue_full", "port_queue_full"];
            full.iter().filter_map(|name| status.drops.get(*name)).sum::<u64>()
        };
        let mut mistakes = after.mistakes();
        if self != Self::Killed && after.functions.iter().any(|one| one.buckets == 0) {
            mistakes.push(format!("a function has no bucket: {after:?}"));
        }
        Ok(Seen {
            phase: self.name(),
            requests: web.requests,
            failed: web.failed,
            p99_us: web.p99_us,
            downloads: files.0,
            wrong: files.1,
            dns: dns.sent,
            dns_lost: dns.failed(),
            frames_lost: lost(&after) - lost(&before),
            refused: refused(&after) - refused(&before),
            moves: after.moves - before.moves,
            mistakes,
        })
    }
}

/// The status once nothing is under way any more: two that are the same.
fn still(lab: &mut Lab, server: &Server) -> Result<Status, LabError> {
    let mut before = None;
    for _ in 0..100 {
        lab.stop().sleep(Duration::from_millis(50))?;
        let status = server.status(lab)?;
        let frames: u64 = status.ports.iter().map(|port| port.in_packets + port.out_packets).sum();
        if before.replace(frames) == Some(frames) {
            return Ok(status);
        }
    }
    server.status(lab)
}

impl Seen {
    /// What should not have been.
    pub(super) fn failures(&self) -> Vec<String> {
        let mut failures = self.mistakes.clone();
        failures.extend(self.wrong.iter().cloned());
        if self.failed > 0 {
            failures.push(format!("{} of {} requests failed", self.failed, self.requests));
        }
        if self.requests == 0 || self.dns == 0 {
            failures.push("no load came through".to_owned());
        }
        // A query is a frame or two, and is not sent again.
        if self.dns_lost > self.frames_lost + self.refused {
            failures.push(format!(
                "{} queries were lost, but only {} frames by functions and {} by full queues",
                self.dns_lost, self.frames_lost, self.refused
            ));
        }
        if self.phase == Phase::Both.name() && self.frames_lost > 0 {
            failures.push(format!("{} frames lost with both functions up", self.frames_lost));
        }
        failures.into_iter().map(|failure| format!("{}: {failure}", self.phase)).collect()
    }
}

impl std::fmt::Display for Seen {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "{:<20} {:>9} {:>6} {:>8} {:>9} {:>6} {:>6} {:>6} {:>13} {:>5}",
            self.phase,
            self.requests,
            self.failed,
            self.p99_us,
            self.downloads,
            self.wrong.len(),
            self.dns,
            self.dns_lost,
            self.frames_lost,
            self.moves
        )
    }
}
