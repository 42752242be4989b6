//! The scenes, one sentence each.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use super::{Stage, wrong};
use crate::flood::Held;
use crate::load::{Connections, HttpLoad, Length};
use crate::status::Status;
use crate::threads::join;
use crate::topology::{BACKENDS, BALANCER, CLIENTS, Family, PORT, vip};
use crate::{Lab, LabError, Stop, exec};

/// What happens in a lab of its own.
pub(super) struct Scene {
    pub(super) name: &'static str,
    /// Queues of HNLB's link, and workers.
    pub(super) queues: u16,
    /// Before HNLB starts, whose program is at the path; what is to be started instead.
    pub(super) prepare: fn(&Lab, PathBuf) -> Result<PathBuf, LabError>,
    pub(super) play: fn(&mut Stage<'_>) -> Result<(), LabError>,
}

/// All scenes.
pub(super) const ALL: [Scene; 6] = [
    Scene {
        name: "two workers get packets from two queues, and the kernel forwards of both",
        queues: 2,
        prepare: |_, binary| Ok(binary),
        play: two_queues,
    },
    Scene {
        name: "connections in the kernel follow their backends to new Ethernet addresses",
        queues: 1,
        prepare: announce_addresses,
        play: moved_neighbours,
    },
    Scene {
        name: "beside another XDP program HNLB works in software, and says so in a line",
        queues: 1,
        prepare: attach_another,
        play: in_software,
    },
    Scene {
        name: "with a program that the verifier refuses HNLB works in software, and says why in a line",
        queues: 2,
        prepare: |lab, binary| spoil(lab, &binary, "hnlb_forward"),
        play: refused,
    },
    Scene {
        name: "with a verifier that refuses all programs HNLB works by net_af_packet, and says so in a line",
        queues: 2,
        prepare: |lab, binary| spoil(lab, &binary, "hnlb_forward,hnlb_up"),
        play: all_refused,
    },
    Scene {
        name: "without its interface HNLB goes on, and says so in a line",
        queues: 1,
        prepare: |_, binary| Ok(binary),
        play: interface_gone,
    },
];

/// How long something may take; generous, for busy machines.
const PATIENCE: Duration = Duration::from_secs(60);
/// Connections that are held.
const HELD: usize = 32;

impl Stage<'_> {
    /// The status, once `done` says that it is as it should be.
    fn until(&self, what: &str, done: impl Fn(&Status) -> bool) -> Result<Status, LabError> {
        let began = Instant::now();
        loop {
            let status = self.balancer.status(&self.lab)?;
            if done(&status) {
                return Ok(status);
            }
            if began.elapsed() > PATIENCE {
                return Err(wrong(format!("{what} within {} s", PATIENCE.as_secs())));
            }
            self.lab.stop().sleep(Duration::from_millis(50))?;
        }
    }

    /// One second of requests over connections that stay, by both families.
    fn load(&self, use_: Connections) -> Result<(), LabError> {
        for family in [Family::V4, Family::V6] {
            let load = HttpLoad::of(1, 32, use_);
            let result = load.run(&self.lab, CLIENTS[0].name, vip(family))?;
            if result.failed > 0 || result.requests == 0 {
                return Err(wrong(format!(
                    "{} of {} requests failed",
                    result.failed, result.requests
                )));
            }
        }
        Ok(())
    }

    fn one_line(&self, words: &str) -> Result<(), LabError> {
        let lines = self.logged(words)?;
        match &lines[..] {
            [_] => Ok(()),
            _ => Err(wrong(format!("`{words}` is in {} lines of the log: {lines:?}", lines.len()))),
        }
    }
}

fn forwarded(status: &Status) -> u64 {
    status.offload.get("forwarded_packets").copied().unwrap_or(0)
}

fn two_queues(stage: &mut Stage<'_>) -> Result<(), LabError> {
    stage.one_line("runs in mode native")?;
    stage.load(Connections::Short)?;
    stage.load(Connections::KeepAlive)?;
    let status = stage.until("the kernel has forwarded nothing", |own| forwarded(own) > 1000)?;
    let packets: Vec<u64> = status.workers.iter().map(|own| own.totals.packets).collect();
    // By the hash each queue gets about half.
    let all: u64 = packets.iter().sum();
    if packets.len() != 2 || packets.iter().any(|own| *own < all / 10 || *own == 0) {
        return Err(wrong(format!("the workers have got {packets:?} packets")));
    }
    Ok(())
}

/// Backends tell their neighbours when they have another Ethernet address.
fn announce_addresses(lab: &Lab, binary: PathBuf) -> Result<PathBuf, LabError> {
    for host in &BACKENDS {
        let script = "echo 1 > /proc/sys/net/ipv4/conf/all/arp_notify\n\
                      echo 1 > /proc/sys/net/ipv6/conf/eth0/ndisc_notify\n";
        lab.exec(host.name, &["sh", "-c", script])?.success()?;
    }
    Ok(binary)
}

fn moved_neighbours(stage: &mut Stage<'_>) -> Result<(), LabError> {
    let ready = stage.lab.dir().join("held");
    let (binary, count) = (stage.binary.display().to_string(), HELD.to_string());
    let path = ready.display().to_string();
    let argv = [&binary, "lab", "hold", "--connections", &count, "--ready", &path];
    let end = Stop::default();
    let (before, output) = std::thread::scope(|scope| {
        let client = CLIENTS[0].name;
        let held = scope.spawn(|| stage.lab.exec_load(client, &argv, Length::Until(&end)));
        let moved = stage.move_backends(&ready);
        end.request();
        Ok::<_, LabError>((moved?, join(held)?.success()?))
    })?;
    let held: Held = serde_json::from_str(&output.stdout)
        .map_err(|error| wrong(format!("{error} in: {}", output.stdout)))?;
    if !held.lost().is_empty() {
        return Err(wrong(held.lost().join("; ")));
    }
    // New connections have the new addresses in their entries from the start.
    stage.load(Connections::KeepAlive)?;
    let more = |own: &Status| forwarded(own) > before + 1000;
    stage.until("the kernel does not forward to the new addresses", more).map(drop)
}

impl Stage<'_> {
    /// Gives all backends another Ethernet address once the held connections have rules,
    /// and waits until these are gone: they come again with the connections' packets. What
    /// the kernel has forwarded by then.
    fn move_backends(&self, ready: &std::path::Path) -> Result<u64, LabError> {
        self.until("the connections do not stand", |_| ready.exists())?;
        let rules = 2 * HELD as u64;
        self.until("not all connections have rules", |own| own.nic.rules >= rules)?;
        for (number, host) in (1..).zip(&BACKENDS) {
            let mac = format!("02:72:00:00:ff:{number:02x}");
            let argv = ["ip", "link", "set", "eth0", "address", &mac];
            self.lab.exec(host.name, &argv)?.success()?;
        }
        let rerouted =
            |own: &Status| own.offload.get("rerouted").copied().unwrap_or(0) >= HELD as u64;
        self.until("entries with old addresses are left", rerouted).map(|status| forwarded(&status))
    }
}

/// A program of somebody else's, which passes everything to the kernel.
fn attach_another(lab: &Lab, binary: PathBuf) -> Result<PathBuf, LabError> {
    const SOURCE: &str = "__attribute__((section(\"xdp\"), used)) int others(void *context)\n\
                          {\n\treturn 2;\n}\n\
                          char terms[] __attribute__((section(\"license\"), used)) = \"GPL\";\n";
    let flags = ["-target", "bpf", "-g", "-Wno-unused", "-c"];
    let object = compile(lab, SOURCE, "others", &flags)?.display().to_string();
    let argv = ["ip", "link", "set", PORT, "xdpdrv", "obj", &object, "sec", "xdp"];
    lab.exec(BALANCER, &argv)?.success()?;
    Ok(binary)
}

/// A script that starts HNLB with another program in the place of each of its own `programs`.
fn spoil(lab: &Lab, binary: &Path, programs: &str) -> Result<PathBuf, LabError> {
    let library = compile(lab, include_str!("refuse.c"), "refuse", &["-shared", "-fPIC"])?;
    let (script, binary) = (lab.dir().join("spoilt"), binary.display());
    let text = format!(
        "#!/bin/sh\nREFUSED={programs} LD_PRELOAD={} exec {binary} \"$@\"\n",
        library.display()
    );
    let write = || -> std::io::Result<()> {
        std::fs::write(&script, text)?;
        std::fs::set_permissions(&script, Permissions::from_mode(0o755))
    };
    write().map_err(LabError::io(format!("write {}", script.display())))?;
    Ok(script)
}

/// What clang makes of `source`.
fn compile(lab: &Lab, source: &str, name: &str, flags: &[&str]) -> Result<PathBuf, LabError> {
    let (file, object) = (lab.dir().join(format!("{name}.c")), lab.dir().join(format!("{name}.o")));
    std::fs::write(&file, source).map_err(LabError::io(format!("write {}", file.display())))?;
    let mut clang = Command::new("clang");
    clang.args(flags).arg("-O2").arg(&file).arg("-o").arg(&object);
    exec::run(&mut clang, None, Duration::from_secs(30), lab.stop())?.success()?;
    Ok(object)
}

fn refused(stage: &mut Stage<'_>) -> Result<(), LabError> {
    stage.one_line("verifier refuses the program: ")?;
    stage.one_line("R2 offset is outside of the packet: connections stay in software")?;
    all_by_workers(stage)
}

fn all_refused(stage: &mut Stage<'_>) -> Result<(), LabError> {
    stage.one_line("R2 offset is outside of the packet; the port works by net_af_packet")?;
    all_by_workers(stage)
}

fn all_by_workers(stage: &mut Stage<'_>) -> Result<(), LabError> {
    stage.load(Connections::KeepAlive)?;
    stage.load(Connections::Short)?;
    let status = stage.balancer.status(&stage.lab)?;
    if forwarded(&status) > 0 || status.workers.iter().any(|own| own.totals.packets == 0) {
        return Err(wrong("not all packets have gone by the workers"));
    }
    Ok(())
}

fn in_software(stage: &mut Stage<'_>) -> Result<(), LabError> {
    stage.one_line("has another XDP program, others (id ")?;
    stage.load(Connections::KeepAlive)?;
    let status = stage.balancer.status(&stage.lab)?;
    if forwarded(&status) > 0 {
        return Err(wrong("the kernel has forwarded packets"));
    }
    let link = stage.lab.exec(BALANCER, &["ip", "link", "show", PORT])?.success()?.stdout;
    if link.contains("prog/xdp") {
        Ok(())
    } else {
        Err(wrong(format!("the program is gone: {link}")))
    }
}

fn interface_gone(stage: &mut Stage<'_>) -> Result<(), LabError> {
    stage.load(Connections::KeepAlive)?;
    stage.lab.exec(BALANCER, &["ip", "link", "del", PORT])?.success()?;
    let down = |own: &Status| own.ports.iter().all(|port| !port.link_up);
    stage.until("the status does not say that the link is down", down)?;
    stage.one_line("the device is gone")
}
