//! One run of HNLB with the kernel behind its port.

use std::net::IpAddr;
use std::path::Path;
use std::time::{Duration, Instant};

use crate::config::{KERNEL, LabRun};
use crate::lab::listening;
use crate::load;
use crate::progress::Progress;
use crate::service_text::ServiceText;
use crate::topology::{
    BACKENDS, BALANCER, CLIENTS, Family, Host, Role, WEB_BACKEND_PORT, balancer_address, vip,
};
use crate::{Balancer, Lab, LabError, servers};

/// Steps of [`run`].
pub(super) const STEPS: usize = 5;
/// The health check of every web service: over the exception path, since HNLB has no
/// other way to the backends.
const WEB: &str = "{ check = \"http\", path = \"/health\", interval = \"200ms\", \
    timeout = \"150ms\", rise = 2, fall = 3 }";
/// How long servers and checks may take; generous, for busy machines.
const PATIENCE: Duration = Duration::from_secs(60);
/// Packets that the worker may give to the kernel in a second.
const RATE: u64 = 2000;
/// Datagrams of the flood: many more than the rate lets pass.
const FLOOD: u32 = 40_000;

/// HNLB's kernel as a host, as its servers need it.
const OWN: Host = Host {
    name: BALANCER,
    role: Role::Backend,
    v4: std::net::Ipv4Addr::new(10, 72, 0, 1),
    v6: std::net::Ipv6Addr::new(0xfd72, 0, 0, 0, 0, 0, 0, 1),
};

/// Starts HNLB and tries its kernel. What was not as it should be.
pub(super) fn run(
    lab: &mut Lab,
    binary: &Path,
    how: &LabRun,
    progress: &Progress,
) -> Result<Vec<String>, LabError> {
    let name = how.encoding.name();
    progress.step(&format!("{name}: starting hnlb"));
    let balancer = Balancer::start_with(lab, binary, "hnlb-kernel", how.device, |socket| {
        let service = |own: &ServiceText| match own.protocol {
            "tcp" => own.toml_with(&format!("health = {WEB}\n")),
            _ => own.toml(),
        };
        let services: String = how.services().iter().map(service).collect();
        let answers = format!("\n[answers]\nto_kernel_per_second = {RATE}\n");
        how.base(socket) + &answers + &services
    })?;
    let mut run = Run { lab, balancer: &balancer, name, failures: Vec::new() };
    run.forward()?;
    for host in [&OWN, &CLIENTS[0]] {
        run.serve(host)?;
    }
    progress.step(&format!("{name}: the kernel serves and asks"));
    run.serves()?;
    progress.step(&format!("{name}: health checks over the exception path"));
    run.checks()?;
    progress.step(&format!("{name}: the kernel routes for backends"));
    run.routes()?;
    progress.step(&format!("{name}: a flood at the kernel"));
    run.flood(binary)?;
    let Run { mut failures, .. } = run;
    balancer.check(lab)?;
    if !balancer.end(lab) {
        failures.push(format!("{name}: hnlb had to be killed, it did not end on SIGTERM"));
    }
    if lab.exec(BALANCER, &["ip", "link", "show", KERNEL])?.status.success() {
        failures.push(format!("{name}: {KERNEL} is still there after hnlb's end"));
    }
    Ok(failures)
}

struct Run<'a> {
    lab: &'a mut Lab,
    balancer: &'a Balancer,
    name: &'a str,
    failures: Vec<String>,
}

impl Run<'_> {
    /// Lets the kernel route.
    fn forward(&mut self) -> Result<(), LabError> {
        for key in ["net.ipv4.ip_forward=1", "net.ipv6.conf.all.forwarding=1"] {
            self.lab.exec(BALANCER, &["sysctl", "-qw", key])?.success()?;
        }
        Ok(())
    }

    /// Starts a web server on `host`.
    fn serve(&mut self, host: &Host) -> Result<(), LabError> {
        let dir = self.lab.dir().to_owned();
        let [web, _] = servers::prepare(host, &dir)?;
        let argv: Vec<&str> = web.argv.iter().map(String::as_str).collect();
        let pid = self.lab.spawn(host.name, &web.name, &argv)?;
        let began = Instant::now();
        while !listening("tcp", WEB_BACKEND_PORT, &["", "6"], pid) {
            if began.elapsed() > PATIENCE {
                let (what, seconds) = (format!("{} listening", web.name), PATIENCE.as_secs());
                return Err(LabError::Timeout { what, seconds, detail: String::new() });
            }
            self.lab.stop().sleep(Duration::from_millis(10))?;
        }
        Ok(())
    }

    /// The kernel's server answers over HNLB's port, and its clients ask there; HNLB
    /// alone answers pings to the interface, and services are as without the kernel.
    fn serves(&mut self) -> Result<(), LabError> {
        for family in [Family::V4, Family::V6] {
            let [outside, inside] = balancer_address(family);
            for from in ["c1", "b1"] {
                for at in [outside, inside] {
                    self.fetch(from, at, BALANCER)?;
                }
            }
            for host in &BACKENDS {
                self.fetch(BALANCER, host.address(family), host.name)?;
            }
            self.ping("c1", outside, 56)?;
            self.ping(BALANCER, CLIENTS[0].address(family), 56)?;
            self.visit(family)?;
        }
        Ok(())
    }

    /// All backends are found up, and none when their server is stopped.
    fn checks(&mut self) -> Result<(), LabError> {
        self.settle("up")?;
        self.settled_by(libc_stop(true), "down")?;
        self.settled_by(libc_stop(false), "up")
    }

    /// A backend reaches a host that is no service, through HNLB's kernel, with what
    /// needs fragments, too; and is reached.
    fn routes(&mut self) -> Result<(), LabError> {
        for family in [Family::V4, Family::V6] {
            let client = CLIENTS[0].address(family);
            self.fetch("b1", client, "c1")?;
            for size in [56, long(family)] {
                self.ping("b2", client, size)?;
                self.ping("c2", BACKENDS[0].address(family), size)?;
            }
        }
        Ok(())
    }

    /// A flood at the interface's address gets no more of the kernel's time than the
    /// configuration gives it, and takes nothing from the services.
    fn flood(&mut self, binary: &Path) -> Result<(), LabError> {
        let (program, count) = (binary.display().to_string(), FLOOD.to_string());
        let before = self.counters()?;
        let began = Instant::now();
        let [at, _] = balancer_address(Family::V4);
        let at = format!("{at}:9");
        let argv = [program.as_str(), "lab", "blast", &at, &count];
        let pid = self.lab.spawn("x1", "blast", &argv)?;
        let mut visits = 0;
        while self.lab.ended(pid).is_none() {
            self.visit(Family::V4)?;
            visits += 1;
        }
        let after = self.counters()?;
        let seconds = began.elapsed().as_secs() + 2;
        let grown = |name: &str| after(name).saturating_sub(before(name));
        let (given, limited) = (grown("to_kernel"), grown("to_kernel_limited"));
        if given > RATE * seconds {
            self.fail(&format!("the kernel got {given} packets in {seconds} s"));
        }
        if limited == 0 {
            self.fail("a flood was not limited");
        }
        println!(
            "{:<8} flood of {FLOOD}: {given} to the kernel in {:.1} s, {limited} dropped, {visits} visits",
            self.name,
            began.elapsed().as_secs_f64()
        );
        Ok(())
    }

    fn counters(&self) -> Result<impl Fn(&str) -> u64 + use<>, LabError> {
        let counters = self.balancer.status(self.lab)?.counters;
        Ok(move |name: &str| counters.get(name).copied().unwrap_or(0))
    }

    /// Stops or continues every web server of a backend, and waits until the services
    /// have all backends `wanted`.
    fn settled_by(&mut self, signal: &str, wanted: &str) -> Result<(), LabError> {
        for host in &BACKENDS {
            if let Some(pid) = self.lab.pid(&format!("{}-nginx", host.name)) {
                // The master and its worker: one process group.
                let group = format!("-{pid}");
                self.lab.exec(host.name, &["kill", signal, "--", &group])?.success()?;
            }
        }
        self.settle(wanted)
    }

    fn settle(&mut self, wanted: &str) -> Result<(), LabError> {
        let began = Instant::now();
        loop {
            self.balancer.check(self.lab)?;
            let status = self.balancer.status(self.lab)?;
            let web = status.services.iter().filter(|own| own.vip.ends_with("/tcp"));
            let mut health = web.flat_map(|own| &own.backends).map(|own| own.health.as_ref());
            if health.all(|own| own.is_some_and(|own| own.state == wanted)) {
                return Ok(());
            }
            if began.elapsed() > PATIENCE {
                return Err(LabError::Timeout {
                    what: format!("{}: all backends {wanted}", self.name),
                    seconds: PATIENCE.as_secs(),
                    detail: format!(": {:?}", status.services),
                });
            }
            self.lab.stop().sleep(Duration::from_millis(20))?;
        }
    }

    /// Fetches a small and a large file of the server `wanted` at `at`.
    fn fetch(&mut self, from: &str, at: IpAddr, wanted: &str) -> Result<(), LabError> {
        let url = load::url(at, WEB_BACKEND_PORT, "/");
        let output = self.lab.exec(from, &["curl", "-sSfg", "-m", "10", &url])?;
        if output.stdout.trim() != wanted {
            self.fail(&format!("{from} at {url}: {}{}", output.stdout, output.stderr));
        }
        let url = load::url(at, WEB_BACKEND_PORT, "/big");
        let size = ["-o", "/dev/null", "-w", "%{size_download}"];
        let argv = [&["curl", "-sSfg", "-m", "20"][..], &size, &[&url]].concat();
        let output = self.lab.exec(from, &argv)?;
        if output.stdout.trim() != servers::BIG.to_string() {
            self.fail(&format!("{from} at {url}: {} {}", output.stdout, output.stderr));
        }
        Ok(())
    }

    /// Pings with `size` bytes; each is answered once.
    fn ping(&mut self, from: &str, to: IpAddr, size: u32) -> Result<(), LabError> {
        let (target, size) = (to.to_string(), size.to_string());
        let argv = ["ping", "-n", "-c", "3", "-i", "0.05", "-W", "5", "-s", &size, &target];
        let output = self.lab.exec(from, &argv)?;
        if !output.status.success() || output.stdout.contains("DUP!") {
            self.fail(&format!("{from} pings {to} with {size}: {}", output.stdout));
        }
        Ok(())
    }

    /// A client is served at the VIP.
    fn visit(&mut self, family: Family) -> Result<(), LabError> {
        match load::get(self.lab, "c2", vip(family)) {
            Err(LabError::Interrupted) => Err(LabError::Interrupted),
            Err(error) => {
                self.fail(&error.to_string());
                Ok(())
            }
            Ok(_) => Ok(()),
        }
    }

    fn fail(&mut self, what: &str) {
        self.failures.push(format!("{}: {what}", self.name));
    }
}

/// Bytes of a ping in fragments. DPDK's AF_PACKET driver gets those of IPv4 put
/// together, and cuts the whole off at 2 kB (docs/user/forwarding.md).
const fn long(family: Family) -> u32 {
    match family {
        Family::V4 => 1600,
        Family::V6 => 4000,
    }
}

/// The signal that stops a process, or lets it go on.
const fn libc_stop(stop: bool) -> &'static str {
    if stop { "-STOP" } else { "-CONT" }
}
