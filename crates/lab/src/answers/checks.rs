//! The checks, one sentence each.

use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use super::{Bench, toml};
use crate::exec;
use crate::flood::Held;
use crate::load::{self, Length};
use crate::topology::{
    ATTACKER, BACKENDS, BALANCER, CLIENTS, DNS_PORT, Family, PORT, WEB_BACKEND_PORT, WIDE_MTU,
    WIDE_PORT, vip,
};
use crate::{LabError, Output, Stop, netns};

type Check = fn(&Bench<'_>) -> Result<(), LabError>;

/// All checks, in the order in which they run: one that changes what HNLB serves
/// comes last.
pub(super) const ALL: [(&str, Check); 10] = [
    ("a connection to a closed port of a VIP is refused at once", closed_tcp_port),
    ("a DNS query over TCP, which no service has, is refused at once", dns_over_tcp),
    ("tracepath ends at the VIP", tracepath),
    ("traceroute ends at the VIP", traceroute),
    ("pings of more than one packet are answered", long_pings),
    ("a VIP that another station claims is defended", defence),
    ("a second hnlb on an interface is refused by name", second_instance),
    ("an MTU above that of the interface is refused", wrong_mtu),
    ("`hnlb lab up | head` stands although its reader has gone", broken_pipe),
    ("connections of a removed backend are reset, and no others", reset_on_removal),
];

/// Seconds that a client would wait at most; a refusal comes long before.
const PATIENCE: &str = "20";
const FAMILIES: [Family; 2] = [Family::V4, Family::V6];

fn wrong(what: impl Into<String>) -> LabError {
    LabError::Parse { tool: "a check", detail: what.into() }
}

/// An error unless `holds`, with all that the program printed.
fn expect(holds: bool, what: &str, output: &Output) -> Result<(), LabError> {
    let Output { status, stdout, stderr, .. } = output;
    if holds { Ok(()) } else { Err(wrong(format!("{what}; {status}: {stdout}{stderr}"))) }
}

impl Bench<'_> {
    fn client(&self, argv: &[&str]) -> Result<Output, LabError> {
        self.lab.exec_for(CLIENTS[0].name, argv, Duration::from_secs(180))
    }

    fn counter(&self, name: &str) -> Result<u64, LabError> {
        Ok(self.balancer.status(self.lab)?.counters.get(name).copied().unwrap_or(0))
    }

    /// Runs another HNLB in HNLB's namespace, which is to end by itself.
    fn another(&self, file: &str, toml: &str) -> Result<Output, LabError> {
        let path = self.lab.dir().join(file);
        std::fs::write(&path, toml).map_err(LabError::io(format!("write {}", path.display())))?;
        let argv = [self.binary, "run", "--config", &path.display().to_string()];
        self.lab.exec_for(BALANCER, &argv, Duration::from_secs(120))
    }
}

fn closed_tcp_port(bench: &Bench<'_>) -> Result<(), LabError> {
    const REFUSED: i32 = 7;
    for family in FAMILIES {
        let url = format!("http://{}/", SocketAddr::new(vip(family), 81));
        let output = bench.client(&["curl", "-sSg", "-m", PATIENCE, &url])?;
        expect(output.status.code() == Some(REFUSED), "curl was not refused", &output)?;
    }
    Ok(())
}

fn dns_over_tcp(bench: &Bench<'_>) -> Result<(), LabError> {
    let (server, port) = (format!("@{}", vip(Family::V4)), DNS_PORT.to_string());
    let time = format!("+time={PATIENCE}");
    let argv = ["dig", "+tcp", "+tries=1", &time, &server, "-p", &port, "who.lab", "TXT"];
    let output = bench.client(&argv)?;
    expect(output.stdout.contains("connection refused"), "dig was not refused", &output)
}

fn tracepath(bench: &Bench<'_>) -> Result<(), LabError> {
    for family in FAMILIES {
        let output = bench.client(&["tracepath", "-n", &vip(family).to_string()])?;
        expect(output.stdout.contains(" reached"), "the VIP was not reached", &output)?;
    }
    Ok(())
}

fn traceroute(bench: &Bench<'_>) -> Result<(), LabError> {
    for family in FAMILIES {
        let to = vip(family).to_string();
        let output = bench.client(&["traceroute", "-n", &to])?;
        let last = output.stdout.trim_end().lines().next_back().unwrap_or_default();
        expect(last.contains(&format!(" {to} ")), "the last line is not the VIP's", &output)?;
    }
    Ok(())
}

fn long_pings(bench: &Bench<'_>) -> Result<(), LabError> {
    // The kernel puts IPv4 fragments together before DPDK's AF_PACKET driver gets
    // them, which cuts the whole off at 2 kB (docs/user/forwarding.md).
    for (family, size) in [(Family::V4, "1600"), (Family::V6, "1600"), (Family::V6, "60000")] {
        let to = vip(family).to_string();
        let output = bench.client(&["ping", "-n", "-c", "3", "-W", PATIENCE, "-s", size, &to])?;
        expect(output.stdout.contains(" 0% packet loss"), "an echo has no answer", &output)?;
    }
    Ok(())
}

/// The attacker claims it, among others, to HNLB; HNLB says to all where it is.
fn defence(bench: &Bench<'_>) -> Result<(), LabError> {
    let Bench { lab, binary, .. } = bench;
    let before = bench.counter("address_defended")?;
    let nobody = lab.shared_file("nobody", "")?;
    let file = format!("/sys/class/net/{PORT}/address");
    let target = lab.exec(BALANCER, &["cat", &file])?.success()?.stdout;
    let end = Stop::default();
    let argv = [binary, "lab", "attack", "--target", target.trim(), "--rate", "200", "--held"];
    let argv = [&argv[..], &[&nobody, "--seed", "1", "arp"]].concat();
    std::thread::scope(|scope| {
        let attack = scope.spawn(|| lab.exec_load(ATTACKER.name, &argv, Length::Until(&end)));
        let seen = (0..500).find_map(|_| match bench.counter("address_defended") {
            Ok(now) if now <= before => {
                std::thread::sleep(Duration::from_millis(20));
                None
            }
            other => Some(other),
        });
        end.request();
        crate::threads::join(attack)?.success()?;
        seen.unwrap_or_else(|| Err(wrong("no address was defended"))).map(drop)
    })?;
    // From an entry that is asked for anew.
    lab.exec(CLIENTS[0].name, &["ip", "neigh", "flush", "dev", "eth0"])?.success()?;
    load::get(lab, CLIENTS[0].name, vip(Family::V4))?;
    let entry = ["ip", "neigh", "show", &vip(Family::V4).to_string()].map(str::to_owned);
    let output = bench.client(&entry.each_ref().map(String::as_str))?;
    expect(output.stdout.contains(target.trim()), "the VIP is elsewhere", &output)
}

fn second_instance(bench: &Bench<'_>) -> Result<(), LabError> {
    let socket = bench.lab.dir().join("second.sock");
    let output = bench.another("second.toml", &toml(bench.run, &socket, &[]))?;
    let name = format!("another hnlb (process {}) has {PORT}", bench.balancer.pid());
    let refused = !output.status.success() && output.stderr.contains(&name);
    expect(refused, &format!("`{name}` is not in what it says"), &output)
}

/// On the interface that HNLB does not use here.
fn wrong_mtu(bench: &Bench<'_>) -> Result<(), LabError> {
    let socket = bench.lab.dir().join("mtu.sock");
    let text = toml(bench.run, &socket, &[]).replace(PORT, WIDE_PORT);
    let output = bench.another("mtu.toml", &text.replace("mtu = 1500", "mtu = 9000"))?;
    let says = format!("mtu = 9000 is more than the mtu {WIDE_MTU} of {WIDE_PORT}");
    let refused = !output.status.success() && output.stderr.contains(&says);
    expect(refused, &format!("`{says}` is not in what it says"), &output)
}

fn broken_pipe(bench: &Bench<'_>) -> Result<(), LabError> {
    let (binary, name) = (bench.binary, format!("{}-p", bench.lab.name()));
    let script = format!(
        "{binary} lab up --without-hnlb --name {name} | head -c 1 > /dev/null\n\
         {binary} lab status --name {name} && {binary} lab down --name {name}"
    );
    let mut command = Command::new("sh");
    let limit = Duration::from_secs(600);
    let output = exec::run(command.args(["-c", &script]), None, limit, bench.lab.stop())?;
    let is_gone = !netns::exists(&netns::name(&name, BALANCER));
    let fine = output.status.success() && is_gone && !output.stderr.contains("panicked");
    expect(fine, "the lab does not stand, or does not go", &output)
}

fn reset_on_removal(bench: &Bench<'_>) -> Result<(), LabError> {
    const REMOVED: usize = 1;
    let Bench { lab, binary, balancer, run, .. } = bench;
    let ready = lab.dir().join("held");
    let path = ready.display().to_string();
    let argv = [binary, "lab", "hold", "--connections", "16", "--ready", &path];
    let end = Stop::default();
    let output = std::thread::scope(|scope| {
        let held = scope.spawn(|| lab.exec_load(CLIENTS[1].name, &argv, Length::Until(&end)));
        while !ready.exists() && !held.is_finished() {
            std::thread::sleep(Duration::from_millis(20));
        }
        let done = bench.reload(&toml(run, balancer.socket(), &[REMOVED]));
        let done = done.and_then(|()| bench.wait_for_revoked(&ready, REMOVED));
        end.request();
        let output = crate::threads::join(held)?.success()?;
        done.map(|()| output)
    })?;
    let held: Held = serde_json::from_str(&output.stdout)
        .map_err(|error| wrong(format!("{error} in: {}", output.stdout)))?;
    let host = BACKENDS.get(REMOVED).map_or("", |host| host.name);
    let as_meant = |line: &String| {
        line.contains(&format!(" to {host}: ")) && line.to_lowercase().contains("reset")
    };
    // Round robin: a quarter of each family's.
    let fine = held.lost().len() == 4 && held.lost().iter().all(as_meant);
    expect(fine, &format!("not the 4 connections to {host} have been reset"), &output)
}

impl Bench<'_> {
    fn reload(&self, text: &str) -> Result<(), LabError> {
        let what = || LabError::io(format!("write {}", self.file.display()));
        std::fs::write(self.file, text).map_err(what())?;
        self.balancer.reload(self.lab, self.file).map(drop)
    }

    /// Waits until HNLB has taken back the rules of the removed backend's
    /// connections, of those whose clients' ends are in the file.
    fn wait_for_revoked(&self, ends: &Path, removed: usize) -> Result<(), LabError> {
        let text = std::fs::read_to_string(ends)
            .map_err(LabError::io(format!("read {}", ends.display())))?;
        let addresses: Vec<String> = BACKENDS
            .get(removed)
            .into_iter()
            .flat_map(|host| FAMILIES.map(|own| host.address(own)))
            .map(|address| SocketAddr::new(address, WEB_BACKEND_PORT).to_string())
            .collect();
        for _ in 0..600 {
            let mut open = 0;
            for end in text.lines() {
                let known = self.balancer.connections(self.lab, end)?;
                let of_removed = known.iter().filter(|own| addresses.contains(&own.server));
                open += of_removed.filter(|own| own.state != "Revoked").count();
            }
            if open == 0 {
                return Ok(());
            }
            self.lab.stop().sleep(Duration::from_millis(50))?;
        }
        Err(wrong("connections of the removed backend are not revoked"))
    }
}
