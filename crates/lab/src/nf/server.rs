//! The server's process and those of its functions.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde::Deserialize;

use super::{Attach, Options};
use crate::topology::{BALANCER, PORT, WIDE_PORT};
use crate::{Lab, LabError};

/// How long processes may take to come and go; generous, for busy machines.
const PATIENCE: Duration = Duration::from_secs(30);
/// How often a function is started until it attaches.
const TRIES: u32 = 3;
/// The server's process.
const SERVER: &str = "nf-server";
/// How the functions are attached and tagged.
const TAGGINGS: [&str; 2] = ["mac", "vlan"];

/// What `hnlb nf status --json` says, as far as it is looked at.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct Status {
    pub(super) ports: Vec<PortStatus>,
    pub(super) functions: Vec<FunctionStatus>,
    pub(super) moves: u64,
    pub(super) held: u64,
    pub(super) drops: BTreeMap<String, u64>,
}

/// A port's counters.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct PortStatus {
    pub(super) in_packets: u64,
    pub(super) out_packets: u64,
    pub(super) passed: u64,
}

/// A function's counters.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct FunctionStatus {
    pub(super) health: String,
    pub(super) buckets: usize,
    pub(super) to_packets: u64,
    pub(super) from_packets: u64,
    pub(super) lost: u64,
}

/// What becomes of frames that a function returns, rather than of those it gets.
const AFTER: [&str; 5] = ["port_queue_full", "no_function", "unmarked", "foreign", "garbled"];

impl Status {
    /// What doesn't add up; the server must be still.
    pub(super) fn mistakes(&self) -> Vec<String> {
        let ports = |of: fn(&PortStatus) -> u64| self.ports.iter().map(of).sum::<u64>();
        let functions = |of: fn(&FunctionStatus) -> u64| self.functions.iter().map(of).sum::<u64>();
        let dropped = |after: bool| -> u64 {
            let named =
                self.drops.iter().filter(|(name, _)| AFTER.contains(&name.as_str()) == after);
            named.map(|(_, frames)| frames).sum()
        };
        let (received, sent) = (ports(|port| port.in_packets), ports(|port| port.out_packets));
        let (to, from) = (functions(|one| one.to_packets), functions(|one| one.from_packets));
        let passed = ports(|port| port.passed);
        let mut mistakes = Vec::new();
        if received != to + passed + self.held + dropped(false) {
            mistakes.push(format!("{received} frames received do not add up: {self:?}"));
        }
        if from + passed != sent + dropped(true) {
            mistakes.push(format!("{sent} frames sent do not add up: {self:?}"));
        }
        mistakes
    }
}

/// The processes.
pub(super) struct Server {
    binary: PathBuf,
    program: Option<PathBuf>,
    attach: Attach,
    pid: u32,
    functions: [Option<u32>; 2],
    starts: u32,
}

impl Server {
    /// Starts the server and both functions, and waits for them.
    pub(super) fn start(lab: &mut Lab, binary: &Path, options: &Options) -> Result<Self, LabError> {
        let file = lab.dir().join("nf.toml");
        let text = configuration(lab.dir(), options.attach);
        std::fs::write(&file, text).map_err(LabError::io(format!("write {}", file.display())))?;
        let argv =
            [&binary.display().to_string(), "nf", "run", "--config", &file.display().to_string()];
        let pid = lab.spawn(BALANCER, SERVER, &argv)?;
        let (binary, program) = (binary.to_owned(), options.function.clone());
        let functions = [None; 2];
        let mut server =
            Self { binary, program, attach: options.attach, pid, functions, starts: 0 };
        server.wait(lab, "the status socket", |_| true)?;
        for number in 0..2 {
            server.start_function(lab, number)?;
        }
        Ok(server)
    }

    /// Starts a function and waits until it is up. One that does not attach is said and
    /// started again, as an operator's init system does it.
    pub(super) fn start_function(&mut self, lab: &mut Lab, number: usize) -> Result<(), LabError> {
        let mut tries = 1;
        loop {
            let Err(error) = self.try_function(lab, number) else { return Ok(()) };
            if tries == TRIES || matches!(error, LabError::Interrupted) {
                return Err(error);
            }
            eprintln!("nf: try {tries} of {TRIES}: {error}");
            self.bury(lab, number);
            tries += 1;
        }
    }

    fn try_function(&mut self, lab: &mut Lab, number: usize) -> Result<(), LabError> {
        let up = |status: &Status| status.functions.get(number).is_some_and(|f| f.health == "up");
        if self.attach == Attach::Ring {
            return self.wait(lab, "the function in the server", up);
        }
        let attach = self.attach.of(lab.dir(), number);
        self.starts += 1;
        let name = format!("nf{number}-{}", self.starts);
        let hnlb = self.binary.display().to_string();
        let program = self.program.as_ref().map(|program| program.display().to_string());
        let argv: Vec<&str> = match &program {
            Some(program) => vec![program, "--attach", &attach],
            None => vec![&hnlb, "nf", "function", "--attach", &attach],
        };
        let pid = lab.spawn(BALANCER, &name, &argv)?;
        if let Some(place) = self.functions.get_mut(number) {
            *place = Some(pid);
        }
        let what = format!("{name} attaching");
        self.wait_for(lab, &what, &[(pid, &name)], up)
    }

    /// The pid of a function.
    pub(super) fn function(&self, number: usize) -> Option<u32> {
        self.functions.get(number).copied().flatten()
    }

    /// A function that was killed is forgotten.
    pub(super) fn bury(&mut self, lab: &mut Lab, number: usize) {
        if let Some(pid) = self.functions.get_mut(number).and_then(Option::take) {
            lab.end(pid, Duration::ZERO);
        }
    }

    /// Asks the server.
    pub(super) fn status(&self, lab: &Lab) -> Result<Status, LabError> {
        let text = self.ask(lab, true)?;
        serde_json::from_str(&text).map_err(|error| LabError::Parse {
            tool: "hnlb nf",
            detail: format!("{error}: {text}"),
        })
    }

    fn ask(&self, lab: &Lab, json: bool) -> Result<String, LabError> {
        let (hnlb, socket) = (self.binary.display().to_string(), status_socket(lab.dir()));
        let mut argv = vec![hnlb.as_str(), "nf", "status", "--socket", &socket];
        if json {
            argv.push("--json");
        }
        Ok(lab.exec(BALANCER, &argv)?.success()?.stdout)
    }

    /// Waits until the status is as wanted.
    pub(super) fn wait(
        &self,
        lab: &mut Lab,
        what: &str,
        wanted: impl Fn(&Status) -> bool,
    ) -> Result<(), LabError> {
        self.wait_for(lab, what, &[], wanted)
    }

    /// Waits as long as the server and the processes `needed`, by their pids and names, run.
    fn wait_for(
        &self,
        lab: &mut Lab,
        what: &str,
        needed: &[(u32, &str)],
        wanted: impl Fn(&Status) -> bool,
    ) -> Result<(), LabError> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let status = self.status(lab);
            if status.as_ref().is_ok_and(&wanted) {
                return Ok(());
            }
            let processes = || std::iter::once((self.pid, SERVER)).chain(needed.iter().copied());
            for (pid, name) in processes() {
                if let Some(status) = lab.ended(pid) {
                    let (command, stderr) = (name.to_owned(), tail(lab, name));
                    return Err(LabError::Command { command, status, stderr });
                }
            }
            if Instant::now() >= deadline {
                let mut detail = format!("; the last status: {status:?}");
                for (_, name) in processes() {
                    let _ = write!(detail, "\nthe end of the log of {name}:\n{}", tail(lab, name));
                }
                let (what, seconds) = (what.to_owned(), PATIENCE.as_secs());
                return Err(LabError::Timeout { what, seconds, detail });
            }
            lab.stop().sleep(Duration::from_millis(20))?;
        }
    }

    /// Ends everything; the server's last words for people.
    pub(super) fn end(mut self, lab: &mut Lab) -> Result<String, LabError> {
        let text = self.ask(lab, false)?;
        for place in &mut self.functions {
            if let Some(pid) = place.take() {
                lab.end(pid, PATIENCE);
            }
        }
        if !lab.end(self.pid, PATIENCE) {
            return Err(LabError::Timeout {
                what: "hnlb nf run ending on SIGTERM".to_owned(),
                seconds: PATIENCE.as_secs(),
                detail: String::new(),
            });
        }
        Ok(text)
    }
}

fn tail(lab: &Lab, name: &str) -> String {
    crate::lab::log_tail(&lab.log(name))
}

fn status_socket(dir: &Path) -> String {
    dir.join("nf.status").display().to_string()
}

fn configuration(dir: &Path, attach: Attach) -> String {
    let mut text = format!(
        "socket = \"{}\"\nidle = \"yield\"\nmemory_mb = 64\nhuge_pages = \"never\"\n\
         pairs = [[\"clients\", \"servers\"]]\n",
        status_socket(dir)
    );
    for (at, (name, device)) in [("clients", PORT), ("servers", WIDE_PORT)].iter().enumerate() {
        text += &format!(
            "[[port]]\nname = \"{name}\"\ndevice = \"net_af_packet{at},iface={device}\"\n"
        );
    }
    for (number, tagging) in TAGGINGS.iter().enumerate() {
        text += &format!(
            "[[function]]\nname = \"nf{number}\"\nattach = \"{}\"\ntagging = \"{tagging}\"\n",
            attach.of(dir, number)
        );
    }
    text
}
