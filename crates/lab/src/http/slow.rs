//! Thousands of slow clients and a flood of SYNs beside real traffic: nobody else's request
//! fails, and what HNLB keeps is bounded.

use std::path::Path;
use std::time::Duration;

use flow::Encoding;
use serde::de::DeserializeOwned;

use super::service;
use crate::config::LabRun;
use crate::flood::{Dawdled, Visited};
use crate::load::{self, Connections, HttpLoad, Length};
use crate::threads::join;
use crate::topology::{ATTACKER, CLIENTS, Family, PORT, vip};
use crate::{Balancer, Lab, LabError, LabOptions, Stop};

/// What is wanted of a run.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Wanted {
    /// Clients that send a byte a second.
    pub(crate) clients: usize,
    /// SYNs a second from sources that do not answer.
    pub(crate) flood: u32,
    /// How long real clients go on beside them.
    pub(crate) seconds: u64,
}

/// New connections of real clients, a second.
const VISITS: u32 = 32;
/// Long connections of real clients, and milliseconds between two requests of each.
const OPEN: u32 = 8;
const PAUSE_MS: u32 = 50;
/// Bytes of memory that HNLB may have more at the end than before, whatever comes: what a
/// worker reserves for connections and headers, and as much again.
const MOST_KB: u64 = 128 * 1024;

/// Runs HNLB's program at `binary` and prints a line for each check. True if all passed.
///
/// # Errors
/// As [`super::run`].
pub(crate) fn run(binary: &Path, stop: &Stop, wanted: Wanted) -> Result<bool, LabError> {
    eprintln!("http: setting up the lab");
    let mut lab = Lab::up(LabOptions { stop: stop.clone(), ..LabOptions::default() })?;
    let how = LabRun::emulated(Encoding::Mark);
    let balancer = Balancer::start_with(&mut lab, binary, "hnlb-slow", how.device, |socket| {
        // The rest of the world is the attacker's host.
        let (v4, v6) = (ATTACKER.v4, ATTACKER.v6);
        let routes = format!(
            "\n[[route]]\nprefix = \"0.0.0.0/0\"\nvia = \"{v4}\"\n\
             \n[[route]]\nprefix = \"::/0\"\nvia = \"{v6}\"\n"
        );
        how.base(socket) + &routes + &service(Family::V4) + &service(Family::V6)
    })?;
    let scene = Scene { lab: &lab, balancer: &balancer, binary, wanted };
    let seen = scene.run();
    balancer.check(&mut lab)?;
    let failures = seen?.report(wanted);
    let ended = balancer.end(&mut lab);
    lab.down()?;
    for failure in &failures {
        println!("FAILED  {failure}");
    }
    if !ended {
        println!("FAILED  hnlb had to be killed, it did not end on SIGTERM");
    }
    if failures.is_empty() && ended {
        println!("nothing failed");
    }
    Ok(failures.is_empty() && ended)
}

struct Scene<'a> {
    lab: &'a Lab,
    balancer: &'a Balancer,
    binary: &'a Path,
    wanted: Wanted,
}

/// What HNLB says of itself.
#[derive(Debug, Default, Clone, Copy)]
struct Kept {
    open: u64,
    half_open: u64,
    headers: u64,
    bytes: u64,
    memory_kb: u64,
}

/// What all have seen.
struct Seen {
    slow: Dawdled,
    new: Visited,
    requests: u64,
    failed: u64,
    before: Kept,
    most: Kept,
    cookies: u64,
    no_room: u64,
    slow_told: u64,
    evicted: u64,
}

impl Scene<'_> {
    fn run(&self) -> Result<Seen, LabError> {
        let [slow, real] = &CLIENTS;
        // HNLB knows every client before the flood.
        for client in [slow.name, real.name] {
            for family in [Family::V4, Family::V6] {
                load::get(self.lab, client, vip(family))?;
            }
        }
        let before = self.kept()?;
        let ready = self.lab.dir().join("slow");
        let _ = std::fs::remove_file(&ready);
        let (clients, background) = (Stop::default(), Stop::default());
        std::thread::scope(|scope| {
            let dawdling = scope.spawn(|| self.dawdle(slow.name, &ready, &background));
            while !ready.exists() && !dawdling.is_finished() {
                std::thread::sleep(Duration::from_millis(50));
            }
            let attack = scope.spawn(|| self.attack(&background));
            let long = scope.spawn(|| {
                let (length, use_) = (Length::Until(&clients), Connections::KeepAlive);
                let load = HttpLoad { length, connections: OPEN, use_, pause_ms: PAUSE_MS };
                load.run(self.lab, real.name, vip(Family::V4))
            });
            let new = scope.spawn(|| {
                let rate = VISITS.to_string();
                self.tool::<Visited>(real.name, &["visit", "--rate", &rate], &clients)
            });
            let mut most = before;
            let mut lasted = Ok(());
            for _ in 0..self.wanted.seconds {
                lasted = self.lab.stop().sleep(Duration::from_secs(1));
                if lasted.is_err() {
                    break;
                }
                if let Ok(now) = self.kept() {
                    most = most.or(now);
                }
            }
            clients.request();
            let (long, new) = (join(long), join(new));
            background.request();
            let (slow, attacked) = (join(dawdling), join(attack));
            lasted?;
            attacked?;
            let (long, counters) = (long?, self.balancer.status(self.lab)?.counters);
            let count = |name: &str| counters.get(name).copied().unwrap_or(0);
            Ok(Seen {
                slow: slow?,
                new: new?,
                requests: long.requests,
                failed: long.failed,
                before,
                most,
                cookies: count("http_cookies"),
                no_room: count("http_no_room"),
                slow_told: count("http_408"),
                evicted: count("http_evicted"),
            })
        })
    }

    fn kept(&self) -> Result<Kept, LabError> {
        let counters = self.balancer.status(self.lab)?.counters;
        let level = |name: &str| counters.get(name).copied().unwrap_or(0);
        let file = format!("/proc/{}/status", self.balancer.pid());
        let text = std::fs::read_to_string(file).unwrap_or_default();
        let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let memory = line.and_then(|line| line.split_whitespace().next()?.parse().ok());
        Ok(Kept {
            open: level("http_open"),
            half_open: level("http_half_open"),
            headers: level("http_headers_held") + level("http_short_headers_held"),
            bytes: level("http_bytes"),
            memory_kb: memory.unwrap_or(0),
        })
    }

    fn dawdle(&self, host: &str, ready: &Path, end: &Stop) -> Result<Dawdled, LabError> {
        let (clients, ready) = (self.wanted.clients.to_string(), ready.display().to_string());
        // As many open files as a process may have at all.
        let script = "ulimit -n $(ulimit -Hn) && exec \"$@\"";
        let binary = self.binary.display().to_string();
        let argv = ["sh", "-c", script, "sh", &binary, "lab", "dawdle"];
        let options = ["--clients", &clients, "--ready", &ready];
        self.printed(host, &[&argv[..], &options[..]].concat(), end)
    }

    fn attack(&self, end: &Stop) -> Result<(), LabError> {
        if self.wanted.flood == 0 {
            return Ok(());
        }
        let file = format!("/sys/class/net/{PORT}/address");
        let target = self.lab.exec(crate::topology::BALANCER, &["cat", &file])?.success()?.stdout;
        let nobody = self.lab.shared_file("nobody", "")?;
        let rate = self.wanted.flood.to_string();
        let argv = ["attack", "--target", target.trim(), "--rate", &rate, "--held", &nobody];
        let argv = [&argv[..], &["--seed", "1", "syn"]].concat();
        self.tool::<serde_json::Value>(ATTACKER.name, &argv, end).map(|_| ())
    }

    /// Runs one of the lab's own hidden commands on a host until `end`; what it prints.
    fn tool<T: DeserializeOwned>(
        &self,
        host: &str,
        argv: &[&str],
        end: &Stop,
    ) -> Result<T, LabError> {
        let binary = self.binary.display().to_string();
        self.printed(host, &[&[binary.as_str(), "lab"], argv].concat(), end)
    }

    fn printed<T: DeserializeOwned>(
        &self,
        host: &str,
        argv: &[&str],
        end: &Stop,
    ) -> Result<T, LabError> {
        let output = self.lab.exec_load(host, argv, Length::Until(end))?.success()?;
        serde_json::from_str(&output.stdout).map_err(|error| LabError::Parse {
            tool: "a command of the lab's own",
            detail: format!("{error} in: {}{}", output.stdout, output.stderr),
        })
    }
}

impl Kept {
    fn or(self, other: Self) -> Self {
        Self {
            open: self.open.max(other.open),
            half_open: self.half_open.max(other.half_open),
            headers: self.headers.max(other.headers),
            bytes: self.bytes.max(other.bytes),
            memory_kb: self.memory_kb.max(other.memory_kb),
        }
    }
}

impl Seen {
    /// Prints what was seen, and gives back what was wrong with it.
    fn report(&self, wanted: Wanted) -> Vec<String> {
        let Self { slow, new, requests, failed, before, most, .. } = self;
        println!(
            "        slow clients: {} opened, {} answered 408, {} ended otherwise, {} not opened",
            slow.opened, slow.told, slow.reset, slow.refused
        );
        println!(
            "        real clients: {requests} requests in long connections, {failed} failed; {} of {} \
             new connections served, p99 {} us",
            new.served, new.tried, new.p99_us
        );
        println!(
            "        HNLB: {} connections at most ({} half-open), {} headers, {} bytes, {} a \
             connection; memory {} kB before, {} kB at most",
            most.open,
            most.half_open,
            most.headers,
            most.bytes,
            most.bytes / most.open.max(1),
            before.memory_kb,
            most.memory_kb
        );
        println!(
            "        {} cookies, {} answers 408, {} made room, {} found none",
            self.cookies, self.slow_told, self.evicted, self.no_room
        );
        let grown = most.memory_kb.saturating_sub(before.memory_kb);
        let checks = [
            (*requests > 0 && *failed == 0, format!("{failed} requests of real clients failed")),
            (
                new.tried > 0 && new.tried == new.served,
                format!("new connections that were not served: {:?}", new.errors),
            ),
            (
                most.open >= wanted.clients as u64 * 9 / 10,
                format!("HNLB had {} connections at most", most.open),
            ),
            (grown < MOST_KB, format!("HNLB's memory has grown by {grown} kB")),
            (self.no_room == 0, format!("{} segments found no room", self.no_room)),
        ];
        checks.into_iter().filter(|(good, _)| !good).map(|(_, why)| why).collect()
    }
}
