//! One run of HNLB under load and reloads.

use std::net::IpAddr;
use std::path::Path;
use std::time::Duration;

use flow::Mode;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use super::model::Model;
use super::traffic;
use crate::column::Column;
use crate::load;
use crate::progress::Progress;
use crate::status::Status;
use crate::topology::{BACKENDS, Family, vip};
use crate::{Balancer, Lab, LabError, Stop};

/// Workers of HNLB: both directions of a connection may come in on different ones.
const WORKERS: u16 = 2;
/// Steps of [`run`] beside the reloads.
pub(super) const STEPS: usize = 2;
/// Changes of one reload, at most.
const CHANGES: u32 = 4;
/// Milliseconds between two reloads, at most.
const PAUSE_MS: u64 = 100;
/// Milliseconds of load before the first reload and after the last.
const QUIET: Duration = Duration::from_millis(500);
/// One in so many reloads is followed by a connection that must get one of the
/// backends in force.
const ASKED: u32 = 4;

/// What the clients saw.
#[derive(Debug, Clone, Default)]
pub(super) struct Seen {
    /// HTTP requests answered, and failed ones.
    pub(super) requests: u64,
    pub(super) failed: u64,
    pub(super) downloads: u64,
    /// DNS queries sent, answered, and lost.
    pub(super) queries: u64,
    pub(super) answered: u64,
    pub(super) lost: u64,
    /// What was not as it should be.
    pub(super) wrong: Vec<String>,
}

/// What one run did and saw.
#[derive(Debug, Clone)]
pub(super) struct Report {
    pub(super) mode: Mode,
    pub(super) encoding: Column,
    pub(super) seed: u64,
    pub(super) reloads: u32,
    /// Changes that the reloads made, and drains and returns by command.
    pub(super) steps: u64,
    pub(super) steered: u64,
    pub(super) seen: Seen,
    /// The NIC's rules at the end.
    pub(super) rules: u64,
    /// Everything that HNLB has counted until then, for a run with failures.
    counted: String,
}

impl Report {
    /// Everything that is not as it should be.
    pub(super) fn failures(&self) -> impl Iterator<Item = String> {
        let Self { mode, encoding, seed, .. } = self;
        let name = format!("{mode}, {}, seed {seed}", encoding.name());
        let Seen { requests, downloads, answered, wrong, .. } = &self.seen;
        let counts = [("requests", *requests), ("downloads", *downloads), ("answers", *answered)];
        let none = counts.into_iter().filter(|(_, count)| *count == 0);
        let none: Vec<_> = none.map(|(what, _)| format!("{name}: no {what} at all")).collect();
        let wrong: Vec<_> = wrong.iter().map(|what| format!("{name}: {what}")).collect();
        let mut all = [none, wrong].concat();
        if !all.is_empty() {
            all.push(format!("{name}: hnlb counted {}", self.counted));
        }
        all.into_iter()
    }
}

/// Starts HNLB, loads it, makes `reloads` random changes, ends it.
pub(super) fn run(
    lab: &mut Lab,
    binary: &Path,
    (mode, encoding): (Mode, Column),
    (reloads, seed): (u32, u64),
    progress: &Progress,
) -> Result<Report, LabError> {
    let how = encoding.run(mode, WORKERS);
    let name = format!("{mode}, {}", encoding.name());
    progress.step(&format!("{name}: starting hnlb"));
    lab.open_tunnels(how.mode)?;
    let rng = StdRng::seed_from_u64(seed);
    let model = Model::new(&how);
    let file_name = format!("hnlb-reload-{}-{}", mode.name(), encoding.name());
    let balancer =
        Balancer::start_with(lab, binary, &file_name, how.device, |socket| model.toml(socket))?;
    let file = lab.dir().join(file_name).with_extension("toml");
    traffic::limit_windows(lab)?;
    progress.step(&format!("{name}: {reloads} reloads under load"));
    let report = Report {
        mode,
        encoding,
        seed,
        reloads: 0,
        steps: 0,
        steered: 0,
        seen: Seen::default(),
        rules: 0,
        counted: String::new(),
    };
    let mut changes = Changes { lab, balancer: &balancer, file: &file, model, rng, report };
    let end = Stop::default();
    let (changed, seen) = std::thread::scope(|scope| {
        let shared: &Lab = changes.lab;
        let load = scope.spawn(|| traffic::run(shared, &end));
        let changed = changes.make(reloads, progress);
        end.request();
        (changed, load.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
    });
    let Changes { mut report, .. } = changes;
    changed?;
    let seen = seen?;
    report.seen = Seen { wrong: [report.seen.wrong, seen.wrong].concat(), ..seen };
    balancer.check(lab)?;
    let status = balancer.status(lab)?;
    (report.rules, report.counted) = (status.nic.rules, counted(&status));
    if !balancer.end(lab) {
        report.seen.wrong.push("hnlb had to be killed, it did not end on SIGTERM".into());
    }
    Ok(report)
}

/// The counters of workers, devices and emulated NICs that are not 0.
fn counted(status: &Status) -> String {
    let devices = status.ports.iter().map(|port| &port.counters);
    let all = [&status.counters, &status.nic.drops].into_iter().chain(devices).flatten();
    let all = all.filter(|(_, count)| **count > 0).map(|(name, count)| format!("{name} {count}"));
    all.collect::<Vec<_>>().join(", ")
}

/// The changes of a running HNLB.
struct Changes<'a> {
    lab: &'a Lab,
    balancer: &'a Balancer,
    file: &'a Path,
    model: Model,
    rng: StdRng,
    report: Report,
}

impl Changes<'_> {
    fn make(&mut self, reloads: u32, progress: &Progress) -> Result<(), LabError> {
        self.lab.stop().sleep(QUIET)?;
        for number in 0..reloads {
            if self.rng.random_ratio(1, 4) {
                self.steer()?;
            }
            self.reload()?;
            if number % ASKED == 0 {
                self.ask()?;
            }
            progress.tick();
            let pause = self.rng.random_range(0..PAUSE_MS);
            self.lab.stop().sleep(Duration::from_millis(pause))?;
        }
        self.lab.stop().sleep(QUIET)
    }

    fn reload(&mut self) -> Result<(), LabError> {
        for _ in 0..self.rng.random_range(1..=CHANGES) {
            self.model.change(&mut self.rng);
        }
        let text = self.model.toml(self.balancer.socket());
        std::fs::write(self.file, text)
            .map_err(LabError::io(format!("write {}", self.file.display())))?;
        let done = self.balancer.reload(self.lab, self.file)?;
        self.model.reloaded();
        self.report.reloads += 1;
        self.report.steps += done.steps.len() as u64;
        Ok(())
    }

    fn steer(&mut self) -> Result<(), LabError> {
        let Some((drain, service, backend)) = self.model.steer(&mut self.rng) else {
            return Ok(());
        };
        let verb = if drain { "drain" } else { "restore" };
        self.balancer.steer(self.lab, verb, &service, &backend.to_string())?;
        self.report.steered += 1;
        Ok(())
    }

    /// A new connection gets a backend that the configuration in force has.
    fn ask(&mut self) -> Result<(), LabError> {
        let family = if self.rng.random() { Family::V4 } else { Family::V6 };
        let digit = if family == Family::V4 { 4 } else { 6 };
        let (service, answer) = if self.rng.random() {
            (format!("web{digit}"), load::get(self.lab, "c1", vip(family)))
        } else {
            (format!("dns{digit}"), load::who(self.lab, "c1", vip(family)))
        };
        let eligible = self.model.eligible(&service);
        match answer {
            Err(LabError::Interrupted) => return Err(LabError::Interrupted),
            Err(error) => self.report.seen.wrong.push(format!("{service}: {error}")),
            Ok(name) if eligible.iter().any(|backend| host(*backend) == Some(&name)) => {}
            Ok(name) => self.report.seen.wrong.push(format!(
                "{service}: {name} got a new connection, and those in force are {eligible:?}"
            )),
        }
        Ok(())
    }
}

/// The name of the backend at an address.
fn host(address: IpAddr) -> Option<&'static str> {
    let has = |family| BACKENDS.iter().find(move |host| host.address(family) == address);
    has(Family::V4).or_else(|| has(Family::V6)).map(|host| host.name)
}
