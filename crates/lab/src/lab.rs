//! The lab itself: set up, used, taken down.
mod processes;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Child;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use flow::Mode;

use crate::exec::{self, Output};
use crate::load::Length;
use crate::proc::{self, ProcessId, Signal};
use crate::state::{self, State};
use crate::topology::{
    self, ATTACKER, BACKENDS, BALANCER, CLIENTS, NAMESPACES, PAIR_NAMESPACES, PORT, SWITCH,
    WIDE_BALANCER, WIDE_PORT,
};
use crate::{LabError, Opener, Stop, host, netns, servers, tunnels};

/// How long servers may take to listen; generous, for emulated machines.
const SERVERS_READY: Duration = Duration::from_secs(300);
/// How long processes get to end by themselves.
const GRACE: Duration = Duration::from_secs(5);

/// How a lab is to be set up.
#[derive(Debug, Clone)]
pub struct LabOptions {
    /// Its name; `None` for a new one of its own.
    pub name: Option<String>,
    /// Whether it outlives the [`Lab`] value (`hnlb lab up`).
    pub keep: bool,
    /// Whether HNLB's namespace gets a veth; without one HNLB brings a tap
    /// device that is plugged into the switch ([`Lab::plug_tap`]).
    pub veth: bool,
    /// Receive and send queues of HNLB's veths.
    pub queues: u16,
    /// Looked at in every wait.
    pub stop: Stop,
}

impl Default for LabOptions {
    fn default() -> Self {
        Self { name: None, keep: false, veth: true, queues: 1, stop: Stop::default() }
    }
}

/// A standing lab. Dropping it takes it down, unless it is to be kept.
#[derive(Debug)]
pub struct Lab {
    state: State,
    dir: PathBuf,
    stop: Stop,
    children: BTreeMap<u32, Child>,
    standing: bool,
    /// The mode whose tunnels are open, and who opens them.
    tunnels: Option<(Mode, Opener)>,
}

/// What stands of a lab.
#[derive(Debug, Clone)]
pub struct LabStatus {
    /// Its name.
    pub name: String,
    /// Its run directory.
    pub dir: PathBuf,
    /// Its namespaces that exist.
    pub namespaces: Vec<String>,
    /// Its processes by name, with the pid if they run.
    pub processes: Vec<(String, Option<u32>)>,
}

impl Lab {
    /// Sets up namespaces, links and servers; HNLB is started apart from it
    /// ([`crate::Balancer`]). Cleans up what crashed labs left before.
    ///
    /// # Errors
    /// [`LabError::Unavailable`] without root or tools, [`LabError::Exists`]
    /// for a name in use, else what failed; nothing is left behind then.
    pub fn up(options: LabOptions) -> Result<Self, LabError> {
        if let Some(reason) = host::unavailable() {
            return Err(LabError::Unavailable(reason));
        }
        for stale in state::all().iter().filter(|state| state.stale()) {
            tracing::info!(lab = stale.name, "cleaning up after a lab whose owner is gone");
            tear_down(stale)?;
        }
        let name = options.name.clone().unwrap_or_else(fresh_name);
        state::check_name(&name)?;
        let dir = state::dir(&name);
        match State::load(&name) {
            Err(LabError::Absent { .. }) => {}
            _ => return Err(LabError::Exists { name, dir }),
        }
        std::fs::create_dir_all(&dir)
            .map_err(LabError::io(format!("make the directory {}", dir.display())))?;
        let LabOptions { keep, veth, queues, stop, .. } = options;
        let owner = ProcessId::own();
        // Not kept before it is finished: until then the drop takes it down.
        let state = State { name, owner, keep: false, veth, processes: Vec::new() };
        let children = BTreeMap::new();
        let mut lab = Self { state, dir, stop, children, standing: true, tunnels: None };
        lab.build(queues)?;
        if keep {
            lab.keep()?;
        }
        Ok(lab)
    }

    fn build(&mut self, queues: u16) -> Result<(), LabError> {
        self.state.save()?;
        for host in NAMESPACES {
            netns::add(&self.netns(host), &self.stop)?;
        }
        let switch = self.netns(SWITCH);
        let hosts: Vec<_> = CLIENTS.iter().chain([&ATTACKER]).chain(&BACKENDS).collect();
        let mut ports: Vec<&str> = hosts.iter().map(|host| host.name).collect();
        let mut links = String::new();
        for host in &hosts {
            let namespace = self.netns(host.name);
            links += &netns::veth("eth0", &namespace, (host.name, &switch), 1);
        }
        if self.state.veth {
            links += &netns::veth(PORT, &self.netns(BALANCER), (BALANCER, &switch), queues);
            links +=
                &netns::veth(WIDE_PORT, &self.netns(BALANCER), (WIDE_BALANCER, &switch), queues);
            ports.extend([BALANCER, WIDE_BALANCER]);
        }
        netns::batch(&links, &self.stop)?;
        netns::script(&switch, &topology::switch_script(&ports), &self.stop)?;
        if self.state.veth {
            netns::script(&self.netns(BALANCER), &topology::balancer_script(), &self.stop)?;
        }
        for host in &hosts {
            netns::script(&self.netns(host.name), &topology::host_script(host), &self.stop)?;
        }
        self.start_servers()
    }

    fn start_servers(&mut self) -> Result<(), LabError> {
        let mut started = Vec::new();
        for host in &BACKENDS {
            for server in servers::prepare(host, &self.dir)? {
                let argv: Vec<&str> = server.argv.iter().map(String::as_str).collect();
                let pid = self.spawn(host.name, &server.name, &argv)?;
                started.push((server, pid));
            }
        }
        let deadline = Instant::now() + SERVERS_READY;
        for (server, pid) in started {
            while !listening(server.protocol, server.port, &["", "6"], pid) {
                self.stop.sleep(Duration::from_millis(10))?;
                let log = self.log(&server.name);
                if let Some(status) = self.ended(pid) {
                    return Err(LabError::Command {
                        command: server.argv.join(" "),
                        status,
                        stderr: log_tail(&log),
                    });
                }
                if Instant::now() >= deadline {
                    return Err(LabError::Timeout {
                        what: format!("{} listening on port {}", server.name, server.port),
                        seconds: SERVERS_READY.as_secs(),
                        detail: format!("; the end of its log:\n{}", log_tail(&log)),
                    });
                }
            }
        }
        Ok(())
    }

    /// Finds a standing lab by its name; it stays when the value is dropped.
    ///
    /// # Errors
    /// [`LabError::Absent`] if there is none.
    pub fn attach(name: &str, stop: Stop) -> Result<Self, LabError> {
        state::check_name(name)?;
        let state = State::load(name)?;
        let dir = state::dir(name);
        let children = BTreeMap::new();
        Ok(Self { state, dir, stop, children, standing: false, tunnels: None })
    }

    /// Lets the lab outlive this value and this process.
    ///
    /// # Errors
    /// If that cannot be written down.
    pub fn keep(&mut self) -> Result<(), LabError> {
        self.state.keep = true;
        self.state.save()
    }

    /// The lab's name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.state.name
    }

    /// The lab's run directory: configurations, logs, sockets.
    #[must_use]
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// The flag that every wait of this lab looks at.
    #[must_use]
    pub const fn stop(&self) -> &Stop {
        &self.stop
    }

    /// Whether HNLB's namespace has the veth.
    #[must_use]
    pub const fn has_veth(&self) -> bool {
        self.state.veth
    }

    /// The full name of a host's namespace (`c1` is `hnlb-<lab>-c1`).
    #[must_use]
    pub fn netns(&self, host: &str) -> String {
        netns::name(&self.state.name, host)
    }

    /// The log file of a process started by [`Lab::spawn`].
    #[must_use]
    pub fn log(&self, name: &str) -> PathBuf {
        self.dir.join(format!("{name}.log"))
    }

    /// Runs a program in a host's namespace to its end, at most a minute.
    ///
    /// # Errors
    /// As [`Lab::exec_for`].
    pub fn exec(&self, host: &str, argv: &[&str]) -> Result<Output, LabError> {
        self.exec_for(host, argv, Duration::from_secs(60))
    }

    /// Runs a program in a host's namespace to its end, at most `limit`.
    ///
    /// # Errors
    /// If it cannot be started, takes too long, or the lab is to stop. Its
    /// own failure is in the output; see [`Output::success`].
    pub fn exec_for(&self, host: &str, argv: &[&str], limit: Duration) -> Result<Output, LabError> {
        check_host(host)?;
        exec::run(&mut netns::command(&self.netns(host), argv), None, limit, &self.stop)
    }

    /// Runs a program in a host's namespace for as long as `length` says: to its
    /// end, or until a SIGINT that makes it end.
    ///
    /// # Errors
    /// As [`Lab::exec_for`].
    pub(crate) fn exec_load(
        &self,
        host: &str,
        argv: &[&str],
        length: Length<'_>,
    ) -> Result<Output, LabError> {
        check_host(host)?;
        let mut command = netns::command(&self.netns(host), argv);
        let limit = Duration::from_secs(length.seconds() + 60);
        exec::run_until(&mut command, None, limit, &self.stop, length.until())
    }

    /// Writes a file that several programs read at the same time, whole and
    /// once; returns its path.
    ///
    /// # Errors
    /// The file cannot be written.
    pub(crate) fn shared_file(&self, name: &str, text: &str) -> Result<String, LabError> {
        let path = self.dir.join(name);
        if !path.exists() {
            let new = self.dir.join(format!("{name}.{:?}", std::thread::current().id()));
            let what = || LabError::io(format!("write {}", path.display()));
            std::fs::write(&new, text).map_err(what())?;
            std::fs::rename(&new, &path).map_err(what())?;
        }
        Ok(path.display().to_string())
    }

    /// Adds another namespace `host`, with a link to the switch, which is called `device`
    /// there, and runs the shell script in it.
    ///
    /// # Errors
    /// If the kernel refuses.
    pub(crate) fn add_host(&self, host: &str, device: &str, script: &str) -> Result<(), LabError> {
        check_host(host)?;
        let (namespace, switch) = (self.netns(host), self.netns(SWITCH));
        netns::add(&namespace, &self.stop)?;
        netns::batch(&netns::veth(device, &namespace, (host, &switch), 1), &self.stop)?;
        let plug =
            topology::no_offloads(host) + &format!("ip link set {host} mtu 1500 master br0 up\n");
        netns::script(&switch, &plug, &self.stop)?;
        netns::script(&namespace, script, &self.stop)
    }

    /// Runs a shell script on a host; ends at the first failing line.
    ///
    /// # Errors
    /// The line that failed.
    pub(crate) fn script(&self, host: &str, script: &str) -> Result<(), LabError> {
        check_host(host)?;
        netns::script(&self.netns(host), script, &self.stop)
    }

    /// Plugs the tap device that HNLB made in the switch's namespace into
    /// the switch.
    ///
    /// # Errors
    /// If there is no such device or it cannot be plugged in.
    pub fn plug_tap(&self) -> Result<(), LabError> {
        // The bridge keeps frames for the addresses of its own ports to
        // itself, and the tap has the address that HNLB answers with: so the
        // kernel's end gets another one.
        let script = format!(
            "ip link set {PORT} down\n\
             ip link set {PORT} address 02:71:00:00:00:fe mtu 1500 master br0\n\
             ip link set {PORT} up\n"
        );
        netns::script(&self.netns(SWITCH), &script, &self.stop)
    }

    /// Plugs `device`, which is in this process's network namespace, into the switch as the
    /// way to HNLB's card.
    ///
    /// # Errors
    /// If there is no such device or it cannot be plugged in.
    pub(crate) fn plug(&self, device: &str) -> Result<(), LabError> {
        let switch = self.netns(SWITCH);
        netns::batch(&format!("link set {device} netns {switch}\n"), &self.stop)?;
        let script = format!("ip link set {device} mtu 1500 master br0 up\n");
        netns::script(&switch, &script, &self.stop)
    }

    /// Whether the switch's ends of HNLB's links take packets that an XDP program
    /// redirects to them: a veth needs NAPI for that, which comes with GRO.
    ///
    /// # Errors
    /// If the kernel refuses.
    pub fn receive_redirected(&self, wanted: bool) -> Result<(), LabError> {
        if !self.state.veth {
            return Ok(());
        }
        let gro = if wanted { "on" } else { "off" };
        let script = [BALANCER, WIDE_BALANCER].map(|port| format!("ethtool -K {port} gro {gro}\n"));
        netns::script(&self.netns(SWITCH), &script.concat(), &self.stop)
    }

    /// Opens the tunnels of `mode` at the backends, once.
    ///
    /// # Errors
    /// If that can't be done here.
    pub fn open_tunnels(&mut self, mode: Mode) -> Result<Opener, LabError> {
        match self.tunnels {
            Some((open, opener)) if open == mode => Ok(opener),
            _ => {
                let opener = tunnels::open(self, mode)?;
                self.tunnels = Some((mode, opener));
                Ok(opener)
            }
        }
    }

    /// What stands of this lab.
    #[must_use]
    pub fn status(&self) -> LabStatus {
        let namespaces = hosts().map(|host| self.netns(host));
        LabStatus {
            name: self.state.name.clone(),
            dir: self.dir.clone(),
            namespaces: namespaces.filter(|name| netns::exists(name)).collect(),
            processes: self
                .state
                .processes
                .iter()
                .map(|r| (r.name.clone(), r.id.alive().then_some(r.id.pid)))
                .collect(),
        }
    }

    /// Takes the lab down: processes, namespaces, files. Doing it again does
    /// nothing.
    ///
    /// # Errors
    /// The first thing that could not be removed; the rest is removed.
    pub fn down(mut self) -> Result<(), LabError> {
        self.take_down()
    }

    fn take_down(&mut self) -> Result<(), LabError> {
        self.standing = false;
        let done = tear_down(&self.state);
        // Zombies of our own.
        for child in self.children.values_mut() {
            let _ = child.try_wait();
        }
        done
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        if !self.standing || self.state.keep {
            return;
        }
        if let Err(error) = self.take_down() {
            tracing::error!(%error, lab = self.state.name, "the lab could not be taken down");
        }
    }
}

/// Removes everything of a lab. The namespaces' own lists of processes are
/// asked too: they know what a crash kept out of the state.
fn tear_down(state: &State) -> Result<(), LabError> {
    let namespaces: Vec<String> = hosts().map(|host| netns::name(&state.name, host)).collect();
    let alive = || -> Vec<u32> {
        let recorded = state.processes.iter().filter(|r| r.id.alive()).map(|r| r.id.pid);
        let inside = namespaces.iter().flat_map(|name| netns::pids(name));
        recorded.chain(inside).filter(|pid| ProcessId::of(*pid).is_some()).collect()
    };
    for (signal, grace) in [(Signal::Term, GRACE), (Signal::Kill, GRACE)] {
        let pids = alive();
        if pids.is_empty() {
            break;
        }
        proc::signal(&pids, signal, false);
        proc::wait_gone(|| alive().is_empty(), grace);
    }
    let left = alive();
    let mut first = Ok(());
    if !left.is_empty() {
        first = Err(LabError::Timeout {
            what: format!("the end of the lab's processes {left:?}"),
            seconds: GRACE.as_secs() * 2,
            detail: String::new(),
        });
    }
    for name in &namespaces {
        first = first.and(netns::delete(name));
    }
    let dir = state::dir(&state.name);
    match std::fs::remove_dir_all(&dir) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            first = first.and(Err(LabError::io(format!("remove {}", dir.display()))(error)));
        }
        _ => {}
    }
    first
}

/// Every host that a lab may have.
fn hosts() -> impl Iterator<Item = &'static str> {
    NAMESPACES.into_iter().chain(PAIR_NAMESPACES)
}

fn check_host(host: &str) -> Result<(), LabError> {
    if hosts().any(|own| own == host) { Ok(()) } else { Err(LabError::Host(host.into())) }
}

/// A name that no other lab has: the pid and a number.
fn fresh_name() -> String {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    format!("{:x}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed))
}

/// Whether the process waits for peers on `port`, in the tables of `protocol`
/// with each of these endings.
pub(crate) fn listening(protocol: &str, port: u16, families: &[&str], pid: u32) -> bool {
    // Before it is in its namespace, these tables are the machine's own.
    netns::entered(pid)
        && families.iter().all(|family| {
            let table = format!("/proc/{pid}/net/{protocol}{family}");
            let text = std::fs::read_to_string(table).unwrap_or_default();
            servers::listens(&text, protocol, port)
        })
}

/// The end of a log for an error message.
pub(crate) fn log_tail(log: &Path) -> String {
    exec::tail(&std::fs::read_to_string(log).unwrap_or_default(), 15)
}
