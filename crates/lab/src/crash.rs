//! HNLB is killed while connections are forwarded in the kernel: they go on without it,
//! and a new HNLB leaves nothing of the old one's.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use flow::Mode;

use crate::column::Column;
use crate::config::LabRun;
use crate::flood::Held;
use crate::load::Length;
use crate::progress::Progress;
use crate::status::Status;
use crate::threads::join;
use crate::topology::{BALANCER, CLIENTS, PORT};
use crate::{Balancer, Lab, LabError, LabOptions, Stop};

/// How long rules may take to come and to go; generous, for busy machines.
const PATIENCE: Duration = Duration::from_secs(60);
/// Rules of each port without connections: the entry and the guards.
const STANDING: u64 = 4;
/// Steps of [`Crash::tell`].
const STEPS: usize = 5;

/// Kills HNLB's program at `binary` while `connections` of each of two clients transfer
/// data in the kernel. The first client's end before another HNLB starts, the second's
/// after that. Prints progress to stderr and what became of them to stdout. True if none was
/// lost, and nothing was left in the kernel.
///
/// # Errors
/// If the lab cannot be set up, HNLB doesn't start, rules don't come or go in time, or the
/// stop is requested. The lab is gone in any case.
pub(crate) fn run(
    binary: &Path,
    stop: &Stop,
    mode: Mode,
    connections: usize,
) -> Result<bool, LabError> {
    let progress = Progress::new("crash", 1 + STEPS);
    progress.step("setting up the lab");
    let mut lab = Lab::up(LabOptions { stop: stop.clone(), ..LabOptions::default() })?;
    // The clients' view of the same lab, while HNLB comes and goes in it.
    let clients = Lab::attach(lab.name(), stop.clone())?;
    let ready = [0, 1].map(|at| clients.dir().join(format!("held{at}")));
    let ends = [Stop::default(), Stop::default()];
    let run = Column::Xdp.run(mode, 1);
    let (left, held) = std::thread::scope(|scope| {
        let mut crash =
            Crash { lab: &mut lab, binary, run: &run, progress: &progress, connections };
        let first = crash.start()?;
        let hold = |at: usize| {
            let (clients, file, end) = (&clients, &ready, &ends);
            move || hold(clients, binary, at, (connections, file.get(at)), end.get(at))
        };
        let holders = [scope.spawn(hold(0)), scope.spawn(hold(1))];
        let left = crash.tell(first, &ready, &ends);
        ends.iter().for_each(Stop::request);
        Ok::<_, LabError>((left?, holders.map(join)))
    })?;
    lab.down()?;
    progress.done();
    let mut fine = left.is_empty();
    left.iter().for_each(|what| println!("FAILED  {what}"));
    for (held, when) in held.into_iter().zip(["without hnlb", "with a new hnlb"]) {
        let held = held?;
        println!(
            "{when}: {} of {connections} connections were lost; each transferred {} times",
            held.lost().len(),
            held.used()
        );
        held.lost().iter().for_each(|line| println!("FAILED  {line}"));
        fine &= held.lost().is_empty();
    }
    Ok(fine)
}

/// Opens connections at a client, and uses them at the end.
fn hold(
    lab: &Lab,
    binary: &Path,
    client: usize,
    (connections, ready): (usize, Option<&PathBuf>),
    end: Option<&Stop>,
) -> Result<Held, LabError> {
    let (Some(host), Some(ready), Some(end)) = (CLIENTS.get(client), ready, end) else {
        return Err(LabError::Host(client.to_string()));
    };
    let (binary, count) = (binary.display().to_string(), connections.to_string());
    let ready = ready.display().to_string();
    let argv = [&binary, "lab", "hold", "--connections", &count, "--ready", &ready, "--busy"];
    let output = lab.exec_load(host.name, &argv, Length::Until(end))?.success()?;
    serde_json::from_str(&output.stdout).map_err(|error| LabError::Parse {
        tool: "hnlb lab hold",
        detail: format!("{error} in: {}", output.stdout),
    })
}

/// HNLB's side.
struct Crash<'a> {
    lab: &'a mut Lab,
    binary: &'a Path,
    run: &'a LabRun,
    progress: &'a Progress,
    connections: usize,
}

impl Crash<'_> {
    fn start(&mut self) -> Result<Balancer, LabError> {
        self.progress.step("starting hnlb");
        Balancer::start(self.lab, self.binary, self.run)
    }

    /// From the connections' beginning to their end; what was left in the kernel.
    fn tell(
        &mut self,
        first: Balancer,
        ready: &[PathBuf; 2],
        [without, with]: &[Stop; 2],
    ) -> Result<Vec<String>, LabError> {
        self.progress.step("until all connections are in the kernel");
        let began = Instant::now();
        while !ready.iter().all(|file| file.exists()) {
            self.wait(began, "the clients' connections")?;
        }
        let directions = if self.run.mode.is_one_way() { 1 } else { 2 };
        let all = 2 * directions * self.connections as u64;
        self.settle(&first, "rules of all connections", &|status| status.nic.rules >= all)?;
        self.progress.step("without hnlb");
        self.lab.kill(first.pid());
        without.request();
        // The client says in its own time what it got.
        self.lab.stop().sleep(Duration::from_secs(2))?;
        self.progress.step("starting hnlb again");
        let second = Balancer::start(self.lab, self.binary, self.run)?;
        with.request();
        // Entries that were left forward without a rule, until the backends have answered:
        // that there is no rule doesn't mean that the transfers have ended.
        let began = Instant::now();
        while !ready.iter().all(|file| file.with_extension("done").exists()) {
            second.check(self.lab)?;
            self.wait(began, "the end of the clients' transfers")?;
        }
        self.progress.step("until no rule is left");
        let mut left = Vec::new();
        let gone = |own: &Status| own.nic.rules <= STANDING * own.ports.len() as u64;
        if self.settle(&second, "the rules' end", &gone).is_err() {
            left.push(format!("{} rules are left", second.status(self.lab)?.nic.rules));
        }
        if !second.end(self.lab) {
            left.push("hnlb had to be killed, it did not end on SIGTERM".to_owned());
        }
        let link = self.lab.exec(BALANCER, &["ip", "link", "show", PORT])?.success()?.stdout;
        if link.contains("xdp") {
            left.push(format!("the program is still there: {link}"));
        }
        Ok(left)
    }

    fn settle(
        &mut self,
        balancer: &Balancer,
        what: &str,
        done: &dyn Fn(&Status) -> bool,
    ) -> Result<(), LabError> {
        let began = Instant::now();
        loop {
            balancer.check(self.lab)?;
            if done(&balancer.status(self.lab)?) {
                return Ok(());
            }
            self.wait(began, what)?;
        }
    }

    fn wait(&self, since: Instant, what: &str) -> Result<(), LabError> {
        if since.elapsed() > PATIENCE {
            let (what, seconds) = (what.to_owned(), PATIENCE.as_secs());
            return Err(LabError::Timeout { what, seconds, detail: String::new() });
        }
        self.lab.stop().sleep(Duration::from_millis(50))
    }
}
