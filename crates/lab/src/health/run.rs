//! One run of HNLB under the faults.

use std::path::Path;
use std::time::{Duration, Instant};

use super::fault::Fault;
use crate::config::LabRun;
use crate::load;
use crate::progress::Progress;
use crate::topology::{BACKENDS, Family, Host, vip};
use crate::{Balancer, Lab, LabError};

/// Steps of [`run`].
pub(super) const STEPS: usize = 3 + Fault::ALL.len();
/// Steps of [`run_passive`].
pub(super) const PASSIVE_STEPS: usize = 1;
/// The signals that count where nothing is probed.
const PASSIVE: &str = "{ check = \"passive\", \
    passive = { timeout = \"500ms\", hold = \"15s\" } }";
/// Connections of each family at a time that meet the ill backends.
const ATTEMPTS: usize = 40;
/// The checks: a backend that fails is down after 1.4 s at most.
const WEB: &str = "{ check = \"http\", path = \"/health\", body = \"well\", interval = \"200ms\", \
    timeout = \"400ms\", rise = 2, fall = 2, jitter = 50 }";
/// DNS servers live through all faults but the pulled cable.
const DNS: &str = "{ check = \"dns\", name = \"who.lab\", interval = \"200ms\", \
    timeout = \"400ms\", rise = 2, fall = 2, jitter = 50 }";
/// How long HNLB may take to notice; generous, for busy machines.
pub(super) const NOTICED: Duration = Duration::from_secs(60);
/// Requests of each family after a change, four times round the backends.
const REQUESTS: usize = 16;

/// Starts HNLB, makes each backend ill in one way and well again, then all of them,
/// and ends it. What was not as it should be.
pub(super) fn run(
    lab: &mut Lab,
    binary: &Path,
    how: &LabRun,
    (hung, progress): (Duration, &Progress),
) -> Result<Vec<String>, LabError> {
    let name = format!("{}, {}", how.mode, how.encoding.name());
    progress.step(&format!("{name}: starting hnlb"));
    lab.open_tunnels(how.mode)?;
    let balancer = start(lab, binary, how, [WEB, DNS])?;
    let mut run = Run { lab, balancer: &balancer, name, failures: Vec::new() };
    run.settle(&|_| true)?;
    run.expect("at the start", &|_| true)?;
    for (fault, ill) in Fault::ALL.into_iter().zip(BACKENDS.iter().cycle()) {
        progress.step(&format!("{}: {} {}", run.name, ill.name, fault.name()));
        run.one(fault, ill)?;
    }
    progress.step(&format!("{}: all backends stopped", run.name));
    run.all()?;
    progress.step(&format!("{}: the control API hangs, and is killed", run.name));
    run.without_control(hung)?;
    let Run { failures, name, .. } = run;
    end(lab, balancer, &name, failures)
}

/// The same without a probe: one backend only resets and another is silent, and clients'
/// connections alone tell. What was not as it should be.
pub(super) fn run_passive(
    lab: &mut Lab,
    binary: &Path,
    how: &LabRun,
    progress: &Progress,
) -> Result<Vec<String>, LabError> {
    let name = format!("{}, {}, passive", how.mode, how.encoding.name());
    progress.step(&format!("{name}: one backend resets, one is silent"));
    let balancer = start(lab, binary, how, [PASSIVE; 2])?;
    let mut run = Run { lab, balancer: &balancer, name, failures: Vec::new() };
    run.settle(&|_| true)?;
    run.expect("at the start", &|_| true)?;
    run.signals()?;
    let Run { failures, name, .. } = run;
    end(lab, balancer, &name, failures)
}

/// Starts HNLB with the checks of web services and of DNS.
fn start(
    lab: &mut Lab,
    binary: &Path,
    how: &LabRun,
    [web, dns]: [&str; 2],
) -> Result<Balancer, LabError> {
    Balancer::start_with(lab, binary, "hnlb-health", how.device, |socket| {
        let service = |own: &crate::service_text::ServiceText| {
            let check = if own.protocol == "tcp" { web } else { dns };
            own.toml_with(&format!("health = {check}\n"))
        };
        how.base(socket) + &how.services().iter().map(service).collect::<String>()
    })
}

/// Ends HNLB. `failures`, and whether it ended.
fn end(
    lab: &mut Lab,
    balancer: Balancer,
    name: &str,
    mut failures: Vec<String>,
) -> Result<Vec<String>, LabError> {
    balancer.check(lab)?;
    if !balancer.end(lab) {
        failures.push(format!("{name}: hnlb had to be killed, it did not end on SIGTERM"));
    }
    Ok(failures)
}

/// A running HNLB, and what was not as it should be.
pub(super) struct Run<'a> {
    pub(super) lab: &'a mut Lab,
    pub(super) balancer: &'a Balancer,
    pub(super) name: String,
    failures: Vec<String>,
}

impl Run<'_> {
    /// One backend is ill, and well again.
    fn one(&mut self, fault: Fault, ill: &Host) -> Result<(), LabError> {
        let others = |host: &str| host != ill.name;
        fault.inflict(self.lab, ill)?;
        let fell = self.settle(&others)?;
        self.expect(&format!("{} {}", ill.name, fault.name()), &others)?;
        fault.heal(self.lab, ill)?;
        let rose = self.settle(&|_| true)?;
        self.expect(&format!("{} well again", ill.name), &|_| true)?;
        println!(
            "{:<18} {} {:<12} down after {:>5} ms, up again after {:>5} ms",
            self.name,
            ill.name,
            fault.name(),
            fell.as_millis(),
            rose.as_millis()
        );
        Ok(())
    }

    /// The web server of one backend is gone, so that its kernel resets, and another one's
    /// cable is pulled.
    fn signals(&mut self) -> Result<(), LabError> {
        let [resets, silent, ..] = &BACKENDS;
        let ill = [(Fault::Killed, resets), (Fault::CutOff, silent)];
        for (fault, host) in ill {
            fault.inflict(self.lab, host)?;
        }
        let well = |host: &str| ill.iter().all(|(_, own)| own.name != host);
        let began = Instant::now();
        while !self.is_settled(&well)? {
            if began.elapsed() > NOTICED {
                return self.late();
            }
            for family in [Family::V4, Family::V6] {
                load::try_many(self.lab, "c1", vip(family), ATTEMPTS)?;
            }
        }
        let fell = began.elapsed();
        self.expect("one resets, one is silent", &well)?;
        for (fault, host) in ill {
            fault.heal(self.lab, host)?;
        }
        let rose = self.settle(&|_| true)?;
        self.expect("both well again", &|_| true)?;
        println!(
            "{:<18} {} resets, {} silent: down after {:>5} ms, up again after {:>5} ms",
            self.name,
            resets.name,
            silent.name,
            fell.as_millis(),
            rose.as_millis()
        );
        Ok(())
    }

    /// All are stopped: clients are refused at once. Then all come back.
    fn all(&mut self) -> Result<(), LabError> {
        for host in &BACKENDS {
            Fault::Stopped.inflict(self.lab, host)?;
        }
        self.settle(&|_| false)?;
        for family in [Family::V4, Family::V6] {
            match load::get(self.lab, "c1", vip(family)) {
                Err(LabError::Interrupted) => return Err(LabError::Interrupted),
                // As curl says that a connection was refused; 28 were a timeout.
                Err(error) if error.to_string().contains("(exit status: 7)") => {}
                Err(error) => self.fail(&format!("with all backends down: {error}")),
                Ok(name) => self.fail(&format!("{name} answers, which is down")),
            }
        }
        for host in &BACKENDS {
            Fault::Stopped.heal(self.lab, host)?;
        }
        self.settle(&|_| true)?;
        self.expect("all well again", &|_| true)
    }

    /// Waits until HNLB's web services have those backends up of which `is_up`, and
    /// the others down; how long that took.
    pub(super) fn settle(&mut self, is_up: &dyn Fn(&str) -> bool) -> Result<Duration, LabError> {
        let began = Instant::now();
        while !self.is_settled(is_up)? {
            if began.elapsed() > NOTICED {
                self.late()?;
            }
            self.lab.stop().sleep(Duration::from_millis(20))?;
        }
        Ok(began.elapsed())
    }

    fn is_settled(&mut self, is_up: &dyn Fn(&str) -> bool) -> Result<bool, LabError> {
        self.balancer.check(self.lab)?;
        let status = self.balancer.status(self.lab)?;
        let web = status.services.iter().filter(|own| own.vip.ends_with("/tcp"));
        Ok(web.flat_map(|own| &own.backends).all(|own| {
            let name = host_at(&own.address).map_or("", |host| host.name);
            let wanted = if is_up(name) { "up" } else { "down" };
            own.health.as_ref().is_some_and(|health| health.state == wanted)
        }))
    }

    fn late(&self) -> Result<(), LabError> {
        let status = self.balancer.status(self.lab)?;
        Err(LabError::Timeout {
            what: format!("{}: the state of the backends", self.name),
            seconds: NOTICED.as_secs(),
            detail: format!(": {:?}", status.services),
        })
    }

    /// Requests over new connections: none fails, and exactly those backends answer of
    /// which `is_up`.
    pub(super) fn expect(
        &mut self,
        when: &str,
        is_up: &dyn Fn(&str) -> bool,
    ) -> Result<(), LabError> {
        for family in [Family::V4, Family::V6] {
            let mut seen = Vec::new();
            for _ in 0..REQUESTS {
                match load::get(self.lab, "c1", vip(family)) {
                    Err(LabError::Interrupted) => return Err(LabError::Interrupted),
                    Err(error) => self.fail(&format!("{when}: {error}")),
                    Ok(name) => seen.push(name),
                }
            }
            for host in &BACKENDS {
                let answers = seen.iter().any(|name| name == host.name);
                match (answers, is_up(host.name)) {
                    (true, false) => {
                        self.fail(&format!("{when}: {} got a new connection", host.name));
                    }
                    (false, true) => {
                        self.fail(&format!("{when}: {} got no connection", host.name));
                    }
                    _ => {}
                }
            }
        }
        Ok(())
    }

    pub(super) fn fail(&mut self, what: &str) {
        self.failures.push(format!("{}: {what}", self.name));
    }
}

/// The backend at an endpoint of the status.
fn host_at(endpoint: &str) -> Option<&'static Host> {
    let address = match endpoint.parse::<std::net::SocketAddr>() {
        Ok(at) => at.ip(),
        Err(_) => endpoint.parse().ok()?,
    };
    BACKENDS.iter().find(|host| {
        [Family::V4, Family::V6].into_iter().any(|family| host.address(family) == address)
    })
}
