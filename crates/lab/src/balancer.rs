//! HNLB itself, running in the lab.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use ::status::{AnnounceStatus, ClientConnections, Explanation};
use control::{Reloaded, Steered};
use serde::de::DeserializeOwned;

use crate::config::{Device, LabRun};
use crate::lab::log_tail;
use crate::status::Status;
use crate::topology::{BALANCER, PORT, SWITCH};
use crate::{Lab, LabError, exec};

/// Name of the process in the lab.
pub(crate) const NAME: &str = "hnlb";
/// How long HNLB may take to be ready; generous, for emulated machines.
const READY: Duration = Duration::from_secs(300);
/// How long it may take to answer; generous, too.
const ANSWER: Duration = Duration::from_secs(60);
/// How long it may take to remove its rules and go.
const GRACE: Duration = Duration::from_secs(10);

/// A running HNLB.
#[derive(Debug)]
pub struct Balancer {
    name: String,
    binary: PathBuf,
    socket: PathBuf,
    pid: u32,
}

impl Balancer {
    /// Starts `hnlb run` in the lab and waits until its status says ready.
    ///
    /// # Errors
    /// If it ends, or isn't ready in five minutes; it has ended then.
    pub fn start(lab: &mut Lab, binary: &Path, run: &LabRun) -> Result<Self, LabError> {
        lab.open_tunnels(run.mode)?;
        let kind = if run.device == Device::Xdp { "xdp" } else { run.encoding.name() };
        let name = format!("hnlb-{}-{kind}", run.mode.name());
        Self::start_with(lab, binary, &name, run.device, |socket| run.toml(socket))
    }

    /// As [`Self::start`], with any configuration: `toml` is told the path of
    /// the status socket.
    ///
    /// # Errors
    /// As [`Self::start`].
    pub(crate) fn start_with(
        lab: &mut Lab,
        binary: &Path,
        name: &str,
        device: Device,
        toml: impl FnOnce(&Path) -> String,
    ) -> Result<Self, LabError> {
        let host = if device == Device::Tap { SWITCH } else { BALANCER };
        Self::start_at(lab, binary, (host, NAME), name, device, toml)
    }

    /// As [`Self::start_with`], on any host: the process is called `process`, and its
    /// configuration `name`.
    ///
    /// # Errors
    /// As [`Self::start`].
    pub(crate) fn start_at(
        lab: &mut Lab,
        binary: &Path,
        (host, process): (&str, &str),
        name: &str,
        device: Device,
        toml: impl FnOnce(&Path) -> String,
    ) -> Result<Self, LabError> {
        let file = lab.dir().join(format!("{name}.toml"));
        let socket = lab.dir().join(format!("{process}.sock"));
        std::fs::write(&file, toml(&socket))
            .map_err(LabError::io(format!("write {}", file.display())))?;
        // What an earlier one left: the socket if it was killed, and its drains.
        let _ = std::fs::remove_file(&socket);
        let _ = std::fs::remove_file(lab.dir().join(format!("{process}.sock.state")));
        lab.receive_redirected(device == Device::Xdp)?;
        let (program, file) = (binary.display().to_string(), file.display().to_string());
        let pid = lab.spawn(host, process, &[&program, "run", "--config", &file])?;
        let balancer = Self { name: process.to_owned(), binary: binary.to_owned(), socket, pid };
        let ready = balancer.wait_ready(lab, device);
        if ready.is_err() {
            lab.end(pid, GRACE);
        }
        ready.map(|()| balancer)
    }

    fn wait_ready(&self, lab: &mut Lab, device: Device) -> Result<(), LabError> {
        let deadline = Instant::now() + READY;
        let mut unplugged = device == Device::Tap;
        loop {
            lab.stop().sleep(Duration::from_millis(50))?;
            self.check(lab)?;
            if unplugged && lab.exec(SWITCH, &["ip", "link", "show", PORT])?.status.success() {
                lab.plug_tap()?;
                unplugged = false;
            }
            let status = self.status(lab);
            if !unplugged && status.as_ref().is_ok_and(|status| status.ready) {
                return Ok(());
            }
            if Instant::now() >= deadline {
                let why = status.err().map(|error| error.to_string()).unwrap_or_default();
                let log = log_tail(&lab.log(&self.name));
                return Err(LabError::Timeout {
                    what: "hnlb being ready".into(),
                    seconds: READY.as_secs(),
                    detail: format!(": {why}\nthe end of its log:\n{log}"),
                });
            }
        }
    }

    /// That it still runs.
    ///
    /// # Errors
    /// [`LabError::BalancerEnded`] if it doesn't.
    pub fn check(&self, lab: &mut Lab) -> Result<(), LabError> {
        let Some(status) = lab.ended(self.pid) else { return Ok(()) };
        let log = lab.log(&self.name);
        let tail = log_tail(&log);
        Err(LabError::BalancerEnded { status, log, tail })
    }

    /// Its pid.
    #[must_use]
    pub const fn pid(&self) -> u32 {
        self.pid
    }

    /// The path of its status socket.
    #[must_use]
    pub fn socket(&self) -> &Path {
        &self.socket
    }

    /// Asks it for its status.
    ///
    /// # Errors
    /// If it doesn't answer within a minute, or not in JSON.
    pub fn status(&self, lab: &Lab) -> Result<Status, LabError> {
        self.tell(lab, "hnlb status --json", &["status"])
    }

    /// Drains a backend, or lets it serve again, by `hnlb backend`.
    ///
    /// # Errors
    /// If it refuses, or doesn't answer.
    pub fn steer(
        &self,
        lab: &Lab,
        verb: &str,
        service: &str,
        backend: &str,
    ) -> Result<Steered, LabError> {
        self.tell(lab, "hnlb backend --json", &["backend", verb, service, backend])
    }

    /// Takes it out of service by `hnlb drain --all`, or puts it back by `hnlb restore`.
    ///
    /// # Errors
    /// If it refuses, or doesn't answer.
    pub(crate) fn drain(&self, lab: &Lab, drain: bool) -> Result<AnnounceStatus, LabError> {
        let verb = if drain { "drain" } else { "restore" };
        self.tell(lab, "hnlb drain --all --json", &[verb, "--all"])
    }

    /// Makes it read the configuration in `file`, by `hnlb reload`.
    ///
    /// # Errors
    /// If it refuses, or doesn't answer.
    pub fn reload(&self, lab: &Lab, file: &Path) -> Result<Reloaded, LabError> {
        let file = file.display().to_string();
        self.tell(lab, "hnlb reload --json", &["reload", "--config", &file])
    }

    /// Asks it for what it knows of the connections of `client`, by `hnlb status
    /// --connection`.
    ///
    /// # Errors
    /// If it knows of none, or doesn't answer.
    pub(crate) fn connections(
        &self,
        lab: &Lab,
        client: &str,
    ) -> Result<Vec<Explanation>, LabError> {
        let argv = ["status", "--connection", client];
        let answer: ClientConnections = self.tell(lab, "hnlb status --connection --json", &argv)?;
        Ok(answer.connections)
    }

    /// Runs a command of `hnlb` that a running instance answers in JSON.
    fn tell<T: DeserializeOwned>(
        &self,
        lab: &Lab,
        tool: &'static str,
        argv: &[&str],
    ) -> Result<T, LabError> {
        let mut command = Command::new(&self.binary);
        command.args(argv).args(["--json", "--socket"]).arg(&self.socket);
        let output = exec::run(&mut command, None, ANSWER, lab.stop())?.success()?;
        serde_json::from_str(&output.stdout).map_err(|error| LabError::Parse {
            tool,
            detail: format!("{error} in: {}", output.stdout),
        })
    }

    /// Ends it. True if it went by itself when asked to.
    pub fn end(self, lab: &mut Lab) -> bool {
        lab.end(self.pid, GRACE)
    }

    /// As [`Self::end`], of one that another will take the place of.
    pub(crate) fn end_again(&self, lab: &mut Lab) -> bool {
        lab.end(self.pid, GRACE)
    }
}
