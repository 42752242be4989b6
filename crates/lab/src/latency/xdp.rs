//! The XDP program: compiled for this lab's addresses, put on the balancer's
//! link, and taken off.
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use crate::topology::{BALANCER, PORT, SWITCH, VIP4};
use crate::{Lab, LabError, exec, host};

const SOURCE: &str = include_str!("xdp.c");
const LIMIT: Duration = Duration::from_secs(30);

/// The program on the link.
#[derive(Debug)]
pub(crate) struct Xdp {
    mode: &'static str,
}

/// Why it can't be had here.
pub(crate) fn unavailable() -> Option<String> {
    (!host::has("clang")).then(|| "clang not found; `make deps` installs it".to_owned())
}

impl Xdp {
    /// Compiles and attaches it: in the driver of the link, else in the
    /// kernel's generic way. `own` is the link's Ethernet address.
    ///
    /// # Errors
    /// It can't be compiled, or the kernel refuses it both ways.
    pub(crate) fn attach(lab: &Lab, own: &str, even: &str, odd: &str) -> Result<Self, LabError> {
        let object = compile(lab, own, even, odd)?;
        let object = object.display().to_string();
        // What the driver of a veth sends back, its peer takes only if that has
        // a program too.
        let peer = ["ip", "link", "set", BALANCER, "xdpdrv", "obj", &object, "sec", "xdp/pass"];
        let native = lab.exec(SWITCH, &peer)?.status.success();
        for mode in ["xdpdrv", "xdpgeneric"].into_iter().skip(usize::from(!native)) {
            let argv = ["ip", "link", "set", PORT, mode, "obj", &object, "sec", "xdp"];
            let done = lab.exec(BALANCER, &argv)?;
            if done.status.success() {
                return Ok(Self { mode });
            }
            if mode == "xdpgeneric" {
                return Err(done.success().err().unwrap_or(LabError::Interrupted));
            }
        }
        Err(LabError::Unavailable("the kernel takes no XDP program".to_owned()))
    }

    /// `xdpdrv` or `xdpgeneric`.
    pub(crate) const fn mode(&self) -> &'static str {
        self.mode
    }

    /// Takes it off.
    ///
    /// # Errors
    /// If it stays.
    pub(crate) fn detach(self, lab: &Lab) -> Result<(), LabError> {
        lab.exec(BALANCER, &["ip", "link", "set", PORT, self.mode, "off"])?.success()?;
        // The peer may have none.
        lab.exec(SWITCH, &["ip", "link", "set", BALANCER, "xdpdrv", "off"]).map(drop)
    }
}

fn compile(lab: &Lab, own: &str, even: &str, odd: &str) -> Result<PathBuf, LabError> {
    let (source, object) = (lab.dir().join("xdp.c"), lab.dir().join("xdp.o"));
    std::fs::write(&source, SOURCE).map_err(LabError::io(format!("write {}", source.display())))?;
    let bytes =
        |mac: &str| mac.split(':').map(|byte| format!("0x{byte}")).collect::<Vec<_>>().join(",");
    let vip = VIP4.octets().map(|byte| byte.to_string()).join(",");
    let mut clang = Command::new("clang");
    clang
        .args(["-O2", "-g", "-target", "bpf", "-Wno-unused", "-c"])
        .arg(&source)
        .arg("-o")
        .arg(&object);
    for (name, value) in
        [("VIP", vip), ("OWN", bytes(own)), ("EVEN", bytes(even)), ("ODD", bytes(odd))]
    {
        clang.arg(format!("-D{name}={value}"));
    }
    exec::run(&mut clang, None, LIMIT, lab.stop())?.success()?;
    Ok(object)
}
