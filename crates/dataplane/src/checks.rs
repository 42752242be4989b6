//! Health checks of a running load balancer: which backends the checking thread
//! probes, and what its findings do.
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use control::{BackendKey, Plan};
use health::{Board, Check, HttpCheck, Settings, State, Target, TargetKey, Told};
use service::{Backend, Health, ServiceSpec};

use status::HealthStatus;

/// Status codes that pass if the configuration names none.
const STATUS: std::ops::RangeInclusive<u16> = 200..=399;
/// How often a thread that cannot probe looks whether it is to end.
const LOOK: Duration = Duration::from_millis(20);

/// The control thread's end.
#[derive(Debug)]
pub(crate) struct Checks {
    wanted: Sender<Vec<Target>>,
    told: Receiver<Told>,
    /// What the thread was told last.
    targets: Vec<Target>,
}

/// The checking thread's end.
#[derive(Debug)]
pub(crate) struct Checker {
    wanted: Receiver<Vec<Target>>,
    told: Sender<Told>,
    board: Arc<Board>,
}

/// Both ends, and what the checks know of each backend.
pub(crate) fn new() -> (Checks, Checker, Arc<Board>) {
    let (wanted, wants) = channel();
    let (tell, told) = channel();
    let board = Arc::new(Board::default());
    let checker = Checker { wanted: wants, told: tell, board: Arc::clone(&board) };
    (Checks { wanted, told, targets: Vec::new() }, checker, board)
}

impl Checker {
    /// Probes until `stop`. Without probes every backend stays as it is.
    pub(crate) fn run(self, seed: u64, stop: &AtomicBool) {
        if let Err(error) = health::run((&self.wanted, &self.told), &self.board, seed, stop) {
            tracing::error!(%error, "no backend is checked: the event loop of the checks failed");
            while !stop.load(Ordering::Relaxed) {
                std::thread::sleep(LOOK);
            }
        }
    }
}

impl Checks {
    /// Has the backends of `plan` checked from now on.
    pub(crate) fn follow(&mut self, plan: &Plan) {
        let targets = targets(plan);
        if targets != self.targets {
            self.targets.clone_from(&targets);
            // An error: the thread has failed, which the program notices.
            let _ = self.wanted.send(targets);
        }
    }

    /// What has been found since the last call: the latest of each backend.
    pub(crate) fn found(&self) -> BTreeMap<(String, BackendKey), Health> {
        let mut found = BTreeMap::new();
        for Told { key, change } in self.told.try_iter() {
            match change.state {
                State::Down => tracing::warn!("{key} is down: {}", change.why),
                State::Up if change.percent == 100 => tracing::info!("{key} is up"),
                State::Up | State::Unknown => {
                    tracing::info!("{key} is up, with {} % of its weight", change.percent);
                }
            }
            let TargetKey { service, address, port } = key;
            found.insert((service, BackendKey { address, port }), Health::percent(change.percent));
        }
        found
    }
}

/// What `board` knows of `backend`, one of the service with this name.
pub(crate) fn status(board: &Board, service: &str, backend: &Backend) -> Option<HealthStatus> {
    let (address, port) = (backend.address, backend.port);
    let record = board.get(&TargetKey { service: service.to_owned(), address, port })?;
    let state = match record.state {
        State::Unknown => "unknown",
        State::Up => "up",
        State::Down => "down",
    };
    Some(HealthStatus {
        state: state.to_owned(),
        percent: record.percent,
        passed: record.passed,
        failed: record.failed,
        transitions: record.transitions,
        last_failure: record.last_failure,
    })
}

/// The backends that `plan` has checked.
fn targets(plan: &Plan) -> Vec<Target> {
    let checked = plan.services.iter().filter_map(|own| Some((own, plan.checks.get(&own.name)?)));
    checked.flat_map(|(service, health)| targets_of(service, health)).collect()
}

fn targets_of(service: &ServiceSpec, health: &config::Health) -> impl Iterator<Item = Target> {
    let (check, settings) = (check(health), settings(health));
    service.backends.iter().map(move |backend| {
        let BackendKey { address, port } = BackendKey::of(service, backend);
        Target {
            key: TargetKey { service: service.name.clone(), address, port },
            at: SocketAddr::new(address, health.port.or(port).unwrap_or(0)),
            check: check.clone(),
            settings,
        }
    })
}

fn settings(health: &config::Health) -> Settings {
    let millis = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
    Settings {
        interval_ms: millis(health.interval),
        timeout_ms: millis(health.timeout),
        rise: health.rise,
        fall: health.fall,
        jitter: health.jitter,
        slow_start_ms: millis(health.slow_start),
    }
}

fn check(health: &config::Health) -> Check {
    match health.check {
        flow::Check::Tcp => Check::Tcp,
        flow::Check::Http => Check::Http(http(health)),
        flow::Check::Https => Check::Https(http(health)),
        flow::Check::Dns => Check::Dns { name: health.name.clone().unwrap_or_default() },
        flow::Check::Icmp => Check::Icmp,
        flow::Check::Grpc => {
            Check::Grpc { service: health.grpc_service.clone().unwrap_or_default() }
        }
        flow::Check::Command => Check::Command { argv: health.command.clone() },
    }
}

fn http(health: &config::Health) -> HttpCheck {
    HttpCheck {
        path: health.path.clone().unwrap_or_else(|| "/".to_owned()),
        host: health.host.clone(),
        headers: health
            .header_fields()
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .collect(),
        status: health.status.clone().unwrap_or(STATUS),
        body: health.body.clone().unwrap_or_default(),
    }
}
