//! One run: HNLB under an attack, or under none, beside clients.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::held::Held;
use super::visitor::Visited;
use super::{Attack, Options};
use crate::config::LabRun;
use crate::load::{self, Connections, HttpLoad, Length};
use crate::threads::join;
use crate::topology::{ATTACKER, BALANCER, CLIENTS, Family, PORT, WIDE_PORT, vip};
use crate::{Balancer, Lab, LabError, Stop};

/// Connections that are held idle.
const HELD: usize = 100;
/// Connections of one wrk, and milliseconds between two requests of each: the
/// load leaves the machine time for the flood.
const OPEN: u32 = 8;
const PAUSE_MS: u32 = 20;
/// Bytes a second of a download.
const RATE: &str = "1M";
/// New connections a second.
const VISITS: u32 = 64;
/// The least share of new connections that has to be served, in percent.
const LEAST_SERVED: u64 = 95;

/// The name of a run.
pub(super) fn name(attacks: &[Attack]) -> String {
    match attacks {
        [] => "no flood".into(),
        [attack] => attack.name().into(),
        _ => "all at once".into(),
    }
}

/// What the clients saw.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Report {
    pub(super) flood: String,
    pub(super) sent: Sent,
    pub(super) held: Held,
    /// Requests over long connections, and those of them that failed.
    pub(super) requests: u64,
    pub(super) failed: u64,
    /// Whole downloads, and what was wrong with the others.
    pub(super) downloads: u64,
    pub(super) broken: Vec<String>,
    pub(super) new: Visited,
    /// Frames that the link brought, and those of them that HNLB's ring on the link
    /// had no room for.
    pub(super) brought: u64,
    pub(super) overrun: u64,
    /// What HNLB and its devices have counted, where it is not 0.
    pub(super) counters: BTreeMap<String, u64>,
}

/// What the attacker sent.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(super) struct Sent {
    /// Frames, and those that its own link refused.
    pub(super) sent: u64,
    pub(super) refused: u64,
    pub(super) seconds: f64,
}

impl Report {
    fn new(flood: String, sent: Sent, held: Held, new: Visited) -> Self {
        let counters = BTreeMap::new();
        let (requests, failed, downloads, broken) = (0, 0, 0, Vec::new());
        let (brought, overrun) = (0, 0);
        Self {
            flood,
            sent,
            held,
            requests,
            failed,
            downloads,
            broken,
            new,
            brought,
            overrun,
            counters,
        }
    }

    /// Everything that is not as it should be.
    pub(super) fn failures(&self) -> impl Iterator<Item = String> {
        let Self { held, requests, failed, downloads, broken, new, .. } = self;
        let mut all: Vec<String> = held.lost.iter().chain(broken).cloned().collect();
        if *failed > 0 {
            all.push(format!("{failed} requests over long connections failed"));
        }
        let counts = [("held connection", held.held), ("request", *requests)];
        let counts = counts.into_iter().chain([("download", *downloads)]);
        all.extend(counts.filter(|(_, count)| *count == 0).map(|(what, _)| format!("no {what}")));
        if new.tried == 0 || new.served * 100 < new.tried * LEAST_SERVED {
            let Visited { tried, served, errors, .. } = new;
            all.push(format!("{served} of {tried} new connections were served: {errors:?}"));
        }
        all.into_iter().map(|what| format!("{}: {what}", self.flood))
    }
}

/// Starts HNLB, and in the midst of the clients' load the attacks; ends both.
pub(super) fn run(
    lab: &mut Lab,
    binary: &Path,
    how: &LabRun,
    options: &Options,
    attacks: &[Attack],
) -> Result<Report, LabError> {
    lab.open_tunnels(how.mode)?;
    let balancer = Balancer::start_with(lab, binary, "hnlb-flood", how.device, |socket| {
        how.toml(socket) + &protection(options.pin)
    })?;
    let before = received_by_link(lab)?;
    let flood = Flood { lab, binary: binary.display().to_string(), options, attacks };
    let seen = flood.run();
    balancer.check(lab)?;
    let mut report = seen?;
    report.brought = received_by_link(lab)? - before;
    let status = balancer.status(lab)?;
    let devices = status.ports.iter().map(|port| &port.counters);
    let taken = devices.clone().filter_map(|counters| counters.get("rx_packets")).sum();
    report.overrun = report.brought.saturating_sub(taken);
    for (name, count) in [&status.counters, &status.nic.drops].into_iter().chain(devices).flatten()
    {
        if *count > 0 {
            *report.counters.entry(name.clone()).or_default() += count;
        }
    }
    if !balancer.end(lab) {
        report.broken.push("hnlb had to be killed, it did not end on SIGTERM".into());
    }
    Ok(report)
}

/// What an operator configures where stations on the link are not trusted; and
/// the way to the rest of the world, which is the attacker's host.
fn protection(pin: bool) -> String {
    let (v4, v6) = (ATTACKER.v4, ATTACKER.v6);
    format!(
        "\n[neighbours]\npin = {pin}\n\
         \n[[route]]\nprefix = \"0.0.0.0/0\"\nvia = \"{v4}\"\n\
         \n[[route]]\nprefix = \"::/0\"\nvia = \"{v6}\"\n"
    )
}

/// Frames that have arrived at HNLB's ends of its links.
fn received_by_link(lab: &Lab) -> Result<u64, LabError> {
    let files =
        [PORT, WIDE_PORT].map(|port| format!("/sys/class/net/{port}/statistics/rx_packets"));
    let script = format!("cat {} 2>/dev/null || true", files.join(" "));
    let counts = lab.exec(BALANCER, &["sh", "-c", &script])?.success()?.stdout;
    Ok(counts.lines().filter_map(|line| line.parse::<u64>().ok()).sum())
}

/// A run in course.
struct Flood<'a> {
    lab: &'a Lab,
    binary: String,
    options: &'a Options,
    attacks: &'a [Attack],
}

impl Flood<'_> {
    fn run(&self) -> Result<Report, LabError> {
        let ready = self.lab.dir().join("held");
        let _ = std::fs::remove_file(&ready);
        // The attack goes on until all clients have ended.
        let (clients, attack) = (Stop::default(), Stop::default());
        let (c1, c2) = (CLIENTS[0].name, CLIENTS[1].name);
        // HNLB knows every client before the attack: an address that is claimed by two
        // stations before it has been resolved goes to the first of them.
        for (client, family) in
            [(c1, Family::V4), (c1, Family::V6), (c2, Family::V4), (c2, Family::V6)]
        {
            load::get(self.lab, client, vip(family))?;
        }
        std::thread::scope(|scope| {
            let held = scope.spawn(|| self.hold(c1, &ready, &clients));
            while !ready.exists() && !held.is_finished() {
                std::thread::sleep(Duration::from_millis(20));
            }
            if held.is_finished() {
                let early = || LabError::Parse { tool: "hnlb lab hold", detail: "it ended".into() };
                return join(held).and_then(|_| Err(early()));
            }
            let sent = scope.spawn(|| self.attack(&ready, &attack));
            let length = Length::Until(&clients);
            let use_ = Connections::KeepAlive;
            let load = HttpLoad { length, connections: OPEN, use_, pause_ms: PAUSE_MS };
            let long = [(c1, Family::V4), (c2, Family::V6)]
                .map(|(client, own)| scope.spawn(move || load.run(self.lab, client, vip(own))));
            let end = &clients;
            let files = [(c1, Family::V6), (c2, Family::V4)].map(|(client, own)| {
                scope.spawn(move || load::downloads(self.lab, client, vip(own), RATE, end))
            });
            let rate = VISITS.to_string();
            let new =
                scope.spawn(move || self.tool::<Visited>(c2, &["visit", "--rate", &rate], end));
            let lasted = self.lab.stop().sleep(Duration::from_secs(self.options.seconds));
            clients.request();
            // All are joined before the first error is given back.
            let (held, long, files, new) = (join(held), long.map(join), files.map(join), join(new));
            attack.request();
            let sent = join(sent);
            lasted?;
            let mut report = Report::new(name(self.attacks), sent?, held?, new?);
            for result in long {
                match result {
                    Ok(result) => {
                        report.requests += result.requests;
                        report.failed += result.failed;
                    }
                    Err(error @ LabError::Timeout { .. }) => report.broken.push(error.to_string()),
                    Err(error) => return Err(error),
                }
            }
            for result in files {
                let (whole, broken) = result?;
                report.downloads += whole;
                report.broken.extend(broken);
            }
            Ok(report)
        })
    }

    fn hold(&self, client: &str, ready: &Path, end: &Stop) -> Result<Held, LabError> {
        let (connections, ready) = (HELD.to_string(), ready.display().to_string());
        self.tool(client, &["hold", "--connections", &connections, "--ready", &ready], end)
    }

    fn attack(&self, held: &Path, end: &Stop) -> Result<Sent, LabError> {
        if self.attacks.is_empty() {
            return Ok(Sent::default());
        }
        let file = format!("/sys/class/net/{PORT}/address");
        let target = self.lab.exec(BALANCER, &["cat", &file])?.success()?.stdout;
        let (rate, held) = (self.options.rate.to_string(), held.display().to_string());
        let seed = rand::random::<u64>().to_string();
        let mut argv = vec!["attack", "--target", target.trim(), "--rate", &rate];
        argv.extend(["--held", &held, "--seed", &seed]);
        argv.extend(self.attacks.iter().map(|attack| attack.name()));
        self.tool(ATTACKER.name, &argv, end)
    }

    /// Runs one of the lab's own hidden commands on a host until `end`; what it
    /// prints.
    fn tool<T: DeserializeOwned>(
        &self,
        host: &str,
        argv: &[&str],
        end: &Stop,
    ) -> Result<T, LabError> {
        let argv = [&[&self.binary, "lab"], argv].concat();
        let output = self.lab.exec_load(host, &argv, Length::Until(end))?.success()?;
        serde_json::from_str(&output.stdout).map_err(|error| LabError::Parse {
            tool: "a command of the lab's own",
            detail: format!("{error} in: {}{}", output.stdout, output.stderr),
        })
    }
}
