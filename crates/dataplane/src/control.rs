//! What the control thread is told to do: backends are drained and serve again, and
//! the configuration is read again.
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use config::Config;
use control::{
    Asked, BackendKey, Change, Changed, Drained, InForce, Plan, Problem, Refusal, Reloaded,
    Request, StateFile, StateFileError, Steered,
};
use serde::Serialize;
use serde_json::value::to_raw_value;
use service::Health;
use state::Shared;

use crate::checks::Checks;
use crate::link::Outcome;
use crate::tls_terms::TlsTerms;

/// The side that obeys.
#[derive(Debug)]
pub(crate) struct Control {
    shared: Arc<Shared>,
    control: control::Control,
    /// The file that was read last.
    file: PathBuf,
    /// The configuration in force.
    config: Config,
    /// Raised by every change. It begins with the time, so that no version of a
    /// predecessor comes again.
    version: u64,
    state: StateFile,
    checks: Checks,
    terms: Arc<TlsTerms>,
    reloaded: bool,
}

impl Control {
    /// Obeys for the load balancer that `config`, from `file`, has started, and
    /// first of all drains what was drained when it ended.
    pub(crate) fn new(
        shared: Arc<Shared>,
        (control, terms): (control::Control, Arc<TlsTerms>),
        (config, file): (&Config, &Path),
        checks: Checks,
    ) -> Self {
        let state = StateFile::new(config.status.state_path());
        let mut control = Self {
            shared,
            control,
            file: file.to_path_buf(),
            config: config.clone(),
            version: first_version(),
            state,
            checks,
            terms,
            reloaded: false,
        };
        control.remember();
        control.checks.follow(control.control.plan(), &control.shared);
        control
    }

    /// The version of the configuration in force.
    pub(crate) const fn version(&self) -> u64 {
        self.version
    }

    /// Obeys a request, and returns the outcome; `None` if it only asks about the
    /// state.
    pub(crate) fn obey(&mut self, asked: &Asked) -> Option<Outcome> {
        let Asked { version, request, .. } = asked;
        if version.is_some_and(|version| version != self.version) {
            return Some(Err(Refusal::Outdated(self.version)));
        }
        match request {
            Request::Status
            | Request::Connection { .. }
            | Request::Connections(_)
            | Request::OffloadCauses
            | Request::Announce { .. }
            | Request::Explain(_)
            | Request::StartCapture(_)
            | Request::TakeCapture { .. }
            | Request::StopCapture { .. } => None,
            Request::Configuration => {
                let (file, config) = (self.file.clone(), self.config.clone());
                Some(outcome(Ok(InForce { file, config })))
            }
            Request::Change(change) => Some(outcome(self.change(change))),
            Request::Drain { service, backend } => {
                let one = Drained { service: service.clone(), backend: *backend };
                Some(outcome(self.steer(&one, true)))
            }
            Request::Restore { service, backend } => {
                let one = Drained { service: service.clone(), backend: *backend };
                Some(outcome(self.steer(&one, false)))
            }
            Request::Reload { file, dry_run } => {
                Some(outcome(self.reload(file.as_ref(), *dry_run)))
            }
        }
    }

    /// Frees what no thread uses. Whether there has been a reload since the
    /// last call.
    pub(crate) fn tick(&mut self, now_ms: u64) -> bool {
        let found = self.checks.found(&self.shared, now_ms);
        if !found.is_empty() {
            self.follow(found);
        }
        self.control.tick(&self.shared, now_ms);
        std::mem::take(&mut self.reloaded)
    }

    /// Brings about what health checks have found.
    fn follow(&mut self, found: BTreeMap<(String, BackendKey), Health>) {
        let services: BTreeSet<String> = found.keys().map(|(service, _)| service.clone()).collect();
        if let Err(refusal) = self.control.set_health(&self.shared, found) {
            tracing::error!("backends keep their state: {refusal}");
        }
        let snapshot = self.shared.snapshot();
        let own = snapshot.services.services().iter().filter(|own| services.contains(own.name()));
        for service in own.filter(|own| !own.backends().iter().any(|b| own.serves(b.id))) {
            tracing::warn!(service = service.name(), "no backend serves: clients are refused");
        }
    }

    fn steer(&mut self, one: &Drained, drain: bool) -> Result<Steered, Refusal> {
        let done = self.control.steer(&self.shared, one, drain)?;
        self.version += 1;
        let what = if drain { "drained" } else { "restored" };
        match done.connections {
            None => tracing::info!("{one} {what}: {:.2} % of the clients move", done.moved * 100.0),
            Some(open) => tracing::info!(open, "{one} {what}"),
        }
        if done.serving == 0 {
            tracing::warn!(service = one.service, "no backend serves: clients are refused");
        }
        self.save();
        Ok(done)
    }

    fn reload(&mut self, file: Option<&PathBuf>, dry_run: bool) -> Result<Reloaded, Refusal> {
        let file = file.unwrap_or(&self.file).clone();
        let done = self.read(&file, dry_run);
        match &done {
            Err(refusal) => tracing::error!("{refusal}"),
            Ok(_) if dry_run => {}
            Ok(done) => {
                done.warnings.iter().for_each(|warning| tracing::warn!("{warning}"));
                let (file, steps) = (file.display(), done.steps.len());
                tracing::info!(%file, steps, "the configuration was read again");
                done.steps.iter().for_each(|step| tracing::info!("{step}"));
                (self.file, self.reloaded) = (done.file.clone(), true);
                self.version += 1;
                self.checks.follow(self.control.plan(), &self.shared);
                self.save();
            }
        }
        done
    }

    fn change(&mut self, change: &Change) -> Result<Changed, Refusal> {
        let mut config = self.config.clone();
        change.apply(&mut config)?;
        let text =
            toml::to_string(&config).map_err(|error| Refusal::Impossible(error.to_string()))?;
        let read = self.terms.read(&config).map_err(Refusal::Impossible)?;
        let name = Path::new("change");
        let done = self.control.reload(&self.shared, (name, &text), false);
        let Reloaded { steps, warnings, .. } = done.map_err(without_lines)?;
        for step in &steps {
            tracing::info!("by the control API: {step}");
        }
        self.terms.follow(read);
        (self.config, self.reloaded) = (config, true);
        self.version += 1;
        self.checks.follow(self.control.plan(), &self.shared);
        self.save();
        Ok(Changed { steps, warnings })
    }

    fn read(&mut self, file: &Path, dry_run: bool) -> Result<Reloaded, Refusal> {
        let text = config::read(file)?;
        let config = Config::parse(&text, file)?;
        // The files before the services: after an error in them nothing has changed.
        let read = self.terms.read(&config).map_err(Refusal::Impossible)?;
        let done = self.control.reload(&self.shared, (file, &text), dry_run)?;
        if !dry_run {
            self.terms.follow(read);
            self.config = config;
        }
        Ok(done)
    }

    /// Drains what the state file says. Whatever is wrong with it, traffic is
    /// served.
    fn remember(&mut self) {
        let file = self.state.path().display().to_string();
        let drained = match self.state.read() {
            Ok(drained) => drained,
            Err(error) => {
                let kept = match &error {
                    StateFileError::Io { .. } => None,
                    StateFileError::Damaged { .. } | StateFileError::Newer { .. } => {
                        self.state.set_aside().ok()
                    }
                };
                let kept =
                    kept.map_or_else(String::new, |at| format!("; it is kept as {}", at.display()));
                tracing::warn!("{error}: no backend is drained at the start{kept}");
                return;
            }
        };
        let wanted: Plan = self.control.plan().clone().with_drained(&drained);
        for gone in drained.difference(&wanted.drained) {
            tracing::info!("{gone} was drained, and is not in the configuration any more");
        }
        if let Err(refusal) = self.control.apply(&self.shared, &wanted) {
            tracing::warn!("{refusal}");
        }
        for one in &self.control.plan().drained {
            tracing::info!("{one} is drained, as before the restart");
        }
        tracing::info!(file, "what is drained is remembered here over a restart");
    }

    fn save(&self) {
        if let Err(error) = self.state.write(&self.control.plan().drained) {
            tracing::warn!("{error}: what is drained is forgotten at a restart");
        }
    }
}

/// The time in milliseconds, which no version of a predecessor has reached.
fn first_version() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(now.as_millis()).unwrap_or(u64::MAX / 2)
}

/// Lines of a text that no client has seen would mislead.
fn without_lines(refusal: Refusal) -> Refusal {
    let all = |problems: Vec<Problem>| {
        problems.into_iter().map(|own| Problem { line: 0, column: 0, ..own }).collect()
    };
    match refusal {
        Refusal::Configuration(problems) => Refusal::Configuration(all(problems)),
        Refusal::NeedsRestart(problems) => Refusal::NeedsRestart(all(problems)),
        other => other,
    }
}

/// `done` as JSON.
pub(crate) fn outcome(done: Result<impl Serialize, Refusal>) -> Outcome {
    to_raw_value(&done?).map_err(|error| Refusal::Impossible(error.to_string()))
}

#[cfg(test)]
mod tests {
    use serde::de::DeserializeOwned;
    use setup::{PortFacts, Seed};
    use wire::Mac;

    use super::*;

    const TEXT: &str = "[[port]]\nname = \"p0\"\ndevice = \"net_null0\"\n\
        [[interface]]\nport = \"p0\"\naddresses = [\"10.71.0.1/24\"]\n\
        [conntrack]\nconnections = 1024\n\
        [[service]]\nname = \"dns\"\nvip = \"10.71.0.100\"\nport = 53\nprotocol = \"udp\"\n\
        mode = \"dsr\"\nstateless = true\n\
        [[service.backend]]\naddress = \"10.71.0.11\"\n\
        [[service.backend]]\naddress = \"10.71.0.12\"\n\
        [[service]]\nname = \"web\"\nvip = \"10.71.0.101\"\nport = 80\nprotocol = \"tcp\"\n\
        [[service.backend]]\naddress = \"10.71.0.11\"\n\
        [[service.backend]]\naddress = \"10.71.0.12\"\n";

    struct Running {
        dir: tempfile::TempDir,
        control: Control,
    }

    /// What would run with the file in `dir`.
    fn start(dir: tempfile::TempDir) -> Running {
        let file = dir.path().join("hnlb.toml");
        let config = Config::load(&file).unwrap();
        let facts = [PortFacts { mac: Mac([2, 0, 0, 0, 0, 1]), queues: 1, ring: 64 }];
        let (shared, control) = setup::start(&config, &facts, false, Seed([1; 32])).unwrap();
        let checks = crate::checks::new().0;
        let control = (control, Arc::default());
        let control = Control::new(Arc::new(shared), control, (&config, &file), checks);
        Running { control, dir }
    }

    fn written(text: &str) -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        write(&dir, text);
        dir
    }

    fn write(dir: &tempfile::TempDir, text: &str) {
        let socket = dir.path().join("hnlb.sock");
        let text = format!("{text}[status]\nsocket = \"{}\"\n", socket.display());
        std::fs::write(dir.path().join("hnlb.toml"), text).unwrap();
    }

    fn asked(request: &Request) -> Asked {
        Asked { id: 1, version: None, request: request.clone() }
    }

    impl Running {
        fn told<T: DeserializeOwned>(&mut self, request: &Request) -> Result<T, Refusal> {
            let answer = self.control.obey(&asked(request)).unwrap()?;
            Ok(serde_json::from_str(answer.get()).unwrap())
        }

        fn steer(&mut self, words: &str) -> Result<Steered, Refusal> {
            let mut words = words.split(' ').map(str::to_owned);
            let mut next = || words.next().unwrap();
            let (verb, service, backend) = (next(), next(), next().parse().unwrap());
            self.told(&match verb.as_str() {
                "drain" => Request::Drain { service, backend },
                _ => Request::Restore { service, backend },
            })
        }

        fn reload(&mut self, text: &str) -> Result<Reloaded, Refusal> {
            write(&self.dir, text);
            self.told(&Request::Reload { file: None, dry_run: false })
        }

        fn drained(&self) -> Vec<String> {
            self.control.control.plan().drained.iter().map(ToString::to_string).collect()
        }
    }

    #[test]
    fn backends_are_drained_and_come_back() {
        let mut running = start(written(TEXT));
        assert!(running.control.obey(&asked(&Request::Status)).is_none());
        let client = "192.0.2.1:5".parse().unwrap();
        assert!(running.control.obey(&asked(&Request::Connection { client })).is_none());
        let drained = running.steer("drain dns 10.71.0.11").unwrap();
        assert_eq!((drained.moved, drained.connections, drained.serving), (0.5, None, 1));
        for (words, reason) in [
            ("drain dns 10.71.0.11", "already"),
            ("restore dns 10.71.0.12", "already"),
            ("drain dns 10.71.0.13", "no backend"),
            ("drain x 10.71.0.11", "no service"),
        ] {
            let refusal = running.steer(words).unwrap_err().to_string();
            assert!(refusal.contains(reason), "{words}: {refusal}");
        }
        assert_eq!(running.steer("restore dns 10.71.0.11").unwrap().serving, 2);
        // With connections: those of the backend stay.
        let shared = Arc::clone(&running.control.shared);
        let id = shared.snapshot().services.services()[1].backends()[0].id;
        (0..3).for_each(|_| shared.loads().opened(id));
        for (words, left) in [
            ("drain web 10.71.0.11", 1),
            ("drain web 10.71.0.12", 0),
            ("restore web 10.71.0.11", 1),
        ] {
            let done = running.steer(words).unwrap();
            let open = if words.ends_with("11") { 3 } else { 0 };
            assert_eq!((done.moved, done.serving), (0.0, left), "{words}");
            assert_eq!(done.connections, Some(open), "{words}");
        }
    }

    #[test]
    fn what_is_drained_stays_so_over_reload_and_restart() {
        let mut running = start(written(TEXT));
        running.steer("drain web 10.71.0.12").unwrap();
        running.steer("drain dns 10.71.0.11").unwrap();
        let more = format!("{TEXT}[[service.backend]]\naddress = \"10.71.0.13\"\n");
        assert_eq!(running.reload(&more).unwrap().steps.len(), 1);
        let both = ["service dns: backend 10.71.0.11", "service web: backend 10.71.0.12"];
        assert_eq!(running.drained(), both);
        let running = start(running.dir);
        assert_eq!(running.drained(), both);
        // One is gone when it starts again.
        let less = TEXT.replace("address = \"10.71.0.11\"", "address = \"10.71.0.14\"");
        write(&running.dir, &less);
        assert_eq!(start(running.dir).drained(), both[1..]);
    }

    #[test]
    fn a_state_file_that_can_not_be_read_stops_nobody() {
        let dir = written(TEXT);
        let file = dir.path().join("hnlb.sock.state");
        std::fs::write(&file, "{\"version\": 77, \"drained\": 5}").unwrap();
        let mut running = start(dir);
        assert!(running.drained().is_empty());
        running.steer("drain web 10.71.0.12").unwrap();
        assert_eq!(start(running.dir).drained().len(), 1);
    }

    #[test]
    fn a_file_that_is_refused_is_not_the_one_in_force() {
        let mut running = start(written(TEXT));
        let other = running.dir.path().join("other.toml");
        std::fs::write(&other, "nonsense").unwrap();
        for file in [other, running.dir.path().join("none.toml")] {
            let refusal = running
                .told::<Reloaded>(&Request::Reload { file: Some(file.clone()), dry_run: false })
                .unwrap_err();
            let Refusal::Configuration(problems) = &refusal else { panic!("{refusal:?}") };
            assert_eq!(problems[0].file, file.display().to_string());
        }
        assert!(running.reload(TEXT).unwrap().steps.is_empty());
    }

    fn backend(text: &str) -> ::control::BackendChange {
        serde_json::from_str(text).unwrap()
    }

    #[test]
    fn a_change_is_in_force_and_a_reload_of_the_file_takes_it_back() {
        let mut running = start(written(TEXT));
        let web = || "web".to_owned();
        let thirteen = backend(r#"{"address": "10.71.0.13", "weight": 7}"#);
        let changes = [
            Change::SetBackend { service: web(), backend: thirteen.clone() },
            Change::SetWeight { service: web(), backend: "10.71.0.11".parse().unwrap(), weight: 5 },
            Change::RemoveBackend { service: web(), backend: "10.71.0.12".parse().unwrap() },
            Change::RemoveService { service: "dns".to_owned() },
        ];
        for change in &changes {
            let before = running.control.version();
            let done: Changed = running.told(&Request::Change(change.clone())).unwrap();
            assert_eq!(done.steps.len(), 1, "{change:?}: {done:?}");
            assert!(running.control.version() > before);
        }
        let held: InForce = running.told(&Request::Configuration).unwrap();
        let weights = held.config.services[0].backends.iter().map(|own| own.weight);
        assert_eq!((held.config.services.len(), weights.collect()), (1, vec![5, 7]));
        // What the file says against what runs.
        let dry: Reloaded = running.told(&Request::Reload { file: None, dry_run: true }).unwrap();
        assert!(dry.steps.len() >= 4, "{dry:?}");
        running.reload(TEXT).unwrap();
        let held: InForce = running.told(&Request::Configuration).unwrap();
        assert_eq!(held.config.services.len(), 2);
    }

    #[test]
    fn a_refused_change_and_one_of_another_version_change_nothing() {
        let mut running = start(written(TEXT));
        let before: InForce = running.told(&Request::Configuration).unwrap();
        let version = running.control.version();
        let (web, none) = ("web".to_owned(), "none".to_owned());
        let (twelve, other) = ("10.71.0.12".parse().unwrap(), "10.71.0.99".parse().unwrap());
        let of_ipv6 = backend(r#"{"address": "fd00::1"}"#);
        for (change, reason) in [
            (Change::RemoveService { service: none.clone() }, "no service 'none'"),
            (Change::RemoveBackend { service: web.clone(), backend: other }, "no backend"),
            (Change::SetWeight { service: none, backend: twelve, weight: 1 }, "no service"),
            (Change::SetBackend { service: web.clone(), backend: of_ipv6 }, "service.web"),
        ] {
            let refusal = running.told::<Changed>(&Request::Change(change)).unwrap_err();
            assert!(refusal.to_string().contains(reason), "{refusal}");
        }
        let change = Change::SetWeight { service: web, backend: twelve, weight: 9 };
        let request = Request::Change(change);
        let late = Asked { id: 1, version: Some(version - 1), request: request.clone() };
        let outcome = running.control.obey(&late).unwrap();
        assert_eq!(outcome.unwrap_err(), Refusal::Outdated(version));
        let after: InForce = running.told(&Request::Configuration).unwrap();
        assert_eq!((after, running.control.version()), (before, version));
        let now = Asked { id: 1, version: Some(version), request };
        assert!(running.control.obey(&now).unwrap().is_ok());
    }
}
