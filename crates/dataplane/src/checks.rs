//! Health checks of a running load balancer: which backends the checking thread
//! probes, and what its findings do.
use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use control::{BackendKey, Plan};
use health::{
    Board, Change, Check, HttpCheck, Settings, Standing, State, Target, TargetKey, Told, Watches,
};
use service::{Backend, Health, ServiceSpec};
use state::Shared;

use crate::passive;
use status::{HealthStatus, PassiveStatus};

/// Status codes that pass if the configuration names none.
const STATUS: std::ops::RangeInclusive<u16> = 200..=399;
/// How often a thread that cannot probe looks whether it is to end.
const LOOK: Duration = Duration::from_millis(20);

/// How often workers' counts are looked at, in milliseconds.
const LOOK_MS: u64 = 200;
const WHOLE: u8 = 100;

/// The control thread's end.
#[derive(Debug)]
pub(crate) struct Checks {
    wanted: Sender<Vec<Target>>,
    told: Receiver<Told>,
    /// What the thread was told last.
    targets: Vec<Target>,
    watches: Watches,
    /// The part of the configured weight that probes, and passive signals, leave a backend,
    /// in percent; those that leave all of it may be missing.
    probed: BTreeMap<TargetKey, u8>,
    signalled: BTreeMap<TargetKey, u8>,
    /// Backends of which one or the other says nothing any more.
    released: Vec<TargetKey>,
    next_look_ms: u64,
    board: Arc<Board>,
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
    let checks = Checks {
        wanted,
        told,
        targets: Vec::new(),
        watches: Watches::default(),
        probed: BTreeMap::new(),
        signalled: BTreeMap::new(),
        released: Vec::new(),
        next_look_ms: 0,
        board: Arc::clone(&board),
    };
    (checks, checker, board)
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
    /// Has the backends of `plan` checked from now on. What was said of backends whose
    /// passive signals don't count any more comes with the next [`Self::found`].
    pub(crate) fn follow(&mut self, plan: &Plan, shared: &Shared) {
        let targets = targets(plan);
        let keys: BTreeSet<&TargetKey> = targets.iter().map(|own| &own.key).collect();
        let left: Vec<TargetKey> =
            self.probed.keys().filter(|key| !keys.contains(key)).cloned().collect();
        self.probed.retain(|key, _| keys.contains(key));
        self.released.extend(left);
        if targets != self.targets {
            self.targets.clone_from(&targets);
            // An error: the thread has failed, which the program notices.
            let _ = self.wanted.send(targets);
        }
        let seen = passive::seen(shared, 0);
        for key in self.watches.set(passive::watched(plan), |key| seen.get(key).copied()) {
            self.signalled.remove(&key);
            self.released.push(key);
        }
        self.next_look_ms = 0;
    }

    /// What has been found since the last call: the latest of each backend.
    pub(crate) fn found(
        &mut self,
        shared: &Shared,
        now_ms: u64,
    ) -> BTreeMap<(String, BackendKey), Health> {
        let mut changed = Vec::new();
        for Told { key, change } in self.told.try_iter() {
            tell(&key, &change);
            self.probed.insert(key.clone(), change.percent);
            changed.push(key);
        }
        if now_ms >= self.next_look_ms {
            self.next_look_ms = now_ms + LOOK_MS;
            changed.extend(self.look(shared, now_ms));
        }
        changed
            .into_iter()
            .map(|key| (backend(&key), Health::percent(self.percent(&key))))
            .collect()
    }

    /// Looks at what workers have counted. The backends of which something has changed.
    fn look(&mut self, shared: &Shared, now_ms: u64) -> Vec<TargetKey> {
        let mut changed = std::mem::take(&mut self.released);
        if !self.watches.is_empty() {
            let seen = passive::seen(shared, now_ms);
            for (key, change) in self.watches.look(now_ms, |key| seen.get(key).copied()) {
                tell(&key, &change);
                self.signalled.insert(key.clone(), change.percent);
                changed.push(key);
            }
        }
        let standings = self.watches.standings();
        let standings = standings.map(|(key, own)| (key.clone(), own.clone())).collect();
        self.board.set_standings(standings);
        changed
    }

    /// The part of its configured weight that both leave a backend: none if either has it
    /// down.
    fn percent(&self, key: &TargetKey) -> u8 {
        let of = |all: &BTreeMap<TargetKey, u8>| all.get(key).copied().unwrap_or(WHOLE);
        both(of(&self.probed), of(&self.signalled))
    }
}

/// The smaller of two parts of a weight.
fn both(probed: u8, signalled: u8) -> u8 {
    probed.min(signalled)
}

fn backend(key: &TargetKey) -> (String, BackendKey) {
    let TargetKey { service, address, port } = key.clone();
    (service, BackendKey { address, port })
}

/// Logs a change of one backend.
fn tell(key: &TargetKey, change: &Change) {
    match change.state {
        State::Down => tracing::warn!("{key} is down: {}", change.why),
        State::Up if change.percent == WHOLE => tracing::info!("{key} is up"),
        State::Up | State::Unknown => {
            tracing::info!("{key} is up, with {} % of its weight", change.percent);
        }
    }
}

/// What `board` knows of `backend`, one of the service with this name.
pub(crate) fn status(board: &Board, service: &str, backend: &Backend) -> Option<HealthStatus> {
    let (address, port) = (backend.address, backend.port);
    let key = TargetKey { service: service.to_owned(), address, port };
    let (record, standing) = (board.get(&key), board.standing(&key));
    if record.is_none() && standing.is_none() {
        return None;
    }
    let mut status = HealthStatus { percent: WHOLE, ..HealthStatus::default() };
    word(State::Up).clone_into(&mut status.state);
    if let Some(record) = record {
        status = HealthStatus {
            state: word(record.state).to_owned(),
            percent: record.percent,
            passed: record.passed,
            failed: record.failed,
            transitions: record.transitions,
            last_failure: record.last_failure,
            passive: None,
        };
    }
    if let Some(Standing { state, percent, transitions, why, spared }) = standing {
        if state == State::Down && status.percent > 0 {
            word(State::Down).clone_into(&mut status.state);
            status.last_failure.clone_from(&why);
        }
        status.percent = both(status.percent, percent);
        status.transitions += transitions;
        let state = word(state).to_owned();
        status.passive = Some(PassiveStatus { state, transitions, why, spared });
    }
    Some(status)
}

const fn word(state: State) -> &'static str {
    match state {
        State::Unknown => "unknown",
        State::Up => "up",
        State::Down => "down",
    }
}

/// The backends that `plan` has probed.
fn targets(plan: &Plan) -> Vec<Target> {
    let checked = plan.services.iter().filter_map(|own| Some((own, plan.checks.get(&own.name)?)));
    let probed = checked.filter_map(|(service, health)| Some((service, health, check(health)?)));
    probed.flat_map(|(service, health, check)| targets_of(service, health, check)).collect()
}

fn targets_of(
    service: &ServiceSpec,
    health: &config::Health,
    check: Check,
) -> impl Iterator<Item = Target> {
    let settings = settings(health);
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

/// What probes ask; `None`: there are none.
fn check(health: &config::Health) -> Option<Check> {
    Some(match health.check {
        flow::Check::Passive => return None,
        flow::Check::Tcp => Check::Tcp,
        flow::Check::Http => Check::Http(http(health)),
        flow::Check::Https => Check::Https(http(health)),
        flow::Check::Dns => Check::Dns { name: health.name.clone().unwrap_or_default() },
        flow::Check::Icmp => Check::Icmp,
        flow::Check::Grpc => {
            Check::Grpc { service: health.grpc_service.clone().unwrap_or_default() }
        }
        flow::Check::Command => Check::Command { argv: health.command.clone() },
    })
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

#[cfg(test)]
mod tests {
    use config::Config;
    use setup::{PortFacts, Seed};
    use wire::Mac;

    use super::*;

    fn text(health: &str) -> String {
        format!(
            "[[port]]\nname = \"p0\"\ndevice = \"net_null0\"\n\
             [[interface]]\nport = \"p0\"\naddresses = [\"10.71.0.1/24\"]\n\
             [conntrack]\nconnections = 1024\n\
             [[service]]\nname = \"web\"\nvip = \"10.71.0.100\"\nport = 80\nprotocol = \"tcp\"\n\
             health = {{ {health} }}\n\
             [[service.backend]]\naddress = \"10.71.0.11\"\n\
             [[service.backend]]\naddress = \"10.71.0.12\"\n"
        )
    }

    /// What workers count takes a backend down in the table that they read, for as long as
    /// its hold, and not the other one; without the signals it is up at once.
    #[test]
    fn refused_connections_take_a_backend_down_and_a_reload_lets_it_go() {
        let passive = "check = \"passive\", passive = { next_hop = false, hold = \"1s\" }";
        let config = Config::parse(&text(passive), "x.toml").unwrap();
        let facts = [PortFacts { mac: Mac([2, 0, 0, 0, 0, 1]), queues: 1, ring: 64 }];
        let (shared, mut control) = setup::start(&config, &facts, false, Seed([1; 32])).unwrap();
        let (mut checks, _checker, board) = new();
        checks.follow(control.plan(), &shared);
        let counts = shared.totals().register();
        let ids: Vec<_> = shared.snapshot().services.backends().iter().map(|own| own.id).collect();
        let turn = |control: &mut control::Control, checks: &mut Checks, now_ms| {
            let found = checks.found(&shared, now_ms);
            control.set_health(&shared, found).unwrap();
            let snapshot = shared.snapshot();
            let service = &snapshot.services.services()[0];
            ids.iter().map(|id| service.is_down(*id)).collect::<Vec<bool>>()
        };
        assert_eq!(turn(&mut control, &mut checks, 0), [false, false]);
        (0..4).for_each(|_| counts.refused(ids[0]));
        assert_eq!(turn(&mut control, &mut checks, 200), [false, false]);
        counts.refused(ids[0]);
        assert_eq!(turn(&mut control, &mut checks, 399), [false, false], "not looked at yet");
        assert_eq!(turn(&mut control, &mut checks, 400), [true, false]);
        let said = || {
            let snapshot = shared.snapshot();
            status(&board, "web", &snapshot.services.services()[0].backends()[0])
        };
        let own = said().unwrap();
        assert_eq!((own.state.as_str(), own.percent, own.transitions), ("down", 0, 1));
        assert_eq!(own.last_failure, "it refused 5 new connections in a row");
        assert_eq!(turn(&mut control, &mut checks, 1399), [true, false]);
        assert_eq!(turn(&mut control, &mut checks, 1600), [false, false]);
        (0..5).for_each(|_| counts.refused(ids[0]));
        assert_eq!(turn(&mut control, &mut checks, 1800), [true, false]);
        let probed = text("check = \"tcp\"");
        control.reload(&shared, ("x.toml".as_ref(), &probed), false).unwrap();
        checks.follow(control.plan(), &shared);
        assert_eq!(turn(&mut control, &mut checks, 1810), [false, false]);
        assert!(said().is_none(), "no probe has begun");
    }
}
