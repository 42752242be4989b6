//! The backends' ends of tunnels: the kernel's devices where it has them, else
//! a program of the lab's own behind a TUN device.

use std::time::{Duration, Instant};

use flow::Mode;

use crate::lab::log_tail;
use crate::topology::{BACKENDS, GUE_PORT, Host};
use crate::{Lab, LabError, netns};

/// The program that opens tunnels.
const PROGRAM: &str = include_str!("decapsulate.py");
/// Its TUN device, and the name of the kernel's devices without their digit.
const DEVICE: &str = "tunnel";
/// The port at which backends take Geneve.
const GENEVE_PORT: u16 = 6081;
/// How long it may take to start.
const READY: Duration = Duration::from_secs(30);

/// Who opens the tunnels at the backends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Opener {
    /// Nobody: the mode has none.
    Nobody,
    /// The kernel's tunnel devices.
    Kernel,
    /// The lab's own program: the kernel here has no such devices.
    Program,
}

impl Opener {
    /// Who it is, for people.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Nobody => "no tunnels",
            Self::Kernel => "the kernel's devices open the tunnels",
            Self::Program => {
                "a program of the lab's opens the tunnels (the kernel has no devices for them)"
            }
        }
    }
}

/// Opens the tunnels of `mode` at every backend.
///
/// # Errors
/// Neither the kernel nor the program can.
pub(crate) fn open(lab: &mut Lab, mode: Mode) -> Result<Opener, LabError> {
    if !mode.is_tunnel() {
        return Ok(Opener::Nobody);
    }
    let mut opener = Opener::Kernel;
    for host in &BACKENDS {
        let namespace = lab.netns(host.name);
        if opener == Opener::Kernel
            && netns::script(&namespace, &kernel(host, mode), lab.stop()).is_err()
        {
            opener = Opener::Program;
        }
        if opener == Opener::Program {
            program(lab, host)?;
        }
    }
    Ok(opener)
}

/// The kernel's devices: one for each outer family, for either inner one. The
/// commands are those of `docs/user/forwarding.md`.
fn kernel(host: &Host, mode: Mode) -> String {
    let Host { v4, v6, .. } = host;
    if mode == Mode::Geneve {
        return format!(
            "ip link add {DEVICE}4 type geneve external innerprotoinherit \
             dstport {GENEVE_PORT} udp6zerocsumrx\nip link set {DEVICE}4 up\n"
        );
    }
    let (four, six) = match mode {
        Mode::Gre => ("gre", "ip6gre"),
        _ => ("sit mode any", "ip6tnl mode any"),
    };
    let mut script = format!(
        "ip link add {DEVICE}4 type {four} local {v4} remote 0.0.0.0\n\
         ip link add {DEVICE}6 type {six} local {v6} remote ::\n\
         ip link set {DEVICE}4 up\nip link set {DEVICE}6 up\n"
    );
    if mode == Mode::Gue {
        script += &format!("ip fou add port {GUE_PORT} gue\nip -6 fou add port {GUE_PORT} gue\n");
    }
    script
}

/// Starts the program and waits until it takes packets.
fn program(lab: &mut Lab, host: &Host) -> Result<(), LabError> {
    let file = lab.dir().join("decapsulate.py");
    std::fs::write(&file, PROGRAM).map_err(LabError::io(format!("write {}", file.display())))?;
    let device = format!(
        "ip link del {DEVICE}4 2>/dev/null || :\nip link del {DEVICE}6 2>/dev/null || :\n\
         ip tuntap add dev {DEVICE}0 mode tun\nip link set {DEVICE}0 up\n"
    );
    netns::script(&lab.netns(host.name), &device, lab.stop())?;
    let name = format!("{}-tunnels", host.name);
    let (v4, v6) = (host.v4.to_string(), host.v6.to_string());
    let (file, device) = (file.display().to_string(), format!("{DEVICE}0"));
    let (gue, geneve) = (GUE_PORT.to_string(), GENEVE_PORT.to_string());
    let argv = ["python3", &file, &device, &v4, &v6, &gue, &geneve];
    let pid = lab.spawn(host.name, &name, &argv)?;
    let deadline = Instant::now() + READY;
    loop {
        let log = lab.log(&name);
        if std::fs::read_to_string(&log).is_ok_and(|text| text.starts_with("ready")) {
            return Ok(());
        }
        let ended = lab.ended(pid);
        if ended.is_some() || Instant::now() >= deadline {
            return Err(LabError::Timeout {
                what: format!("{name} (python3 with /dev/net/tun) taking packets"),
                seconds: READY.as_secs(),
                detail: format!(": {}\n{}", ended.unwrap_or_default(), log_tail(&log)),
            });
        }
        lab.stop().sleep(Duration::from_millis(20))?;
    }
}
