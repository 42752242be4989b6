//! What happens to backends.

use crate::topology::{Host, SWITCH};
use crate::{Lab, LabError, servers};

/// One way of being ill.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fault {
    /// The web server is killed: the kernel answers with RST.
    Killed,
    /// It is stopped: the kernel accepts connections that nobody serves.
    Stopped,
    /// It answers 500 to its health check.
    Sick,
    /// It answers its health check a byte a second.
    Slow,
    /// The backend's cable is pulled.
    CutOff,
}

impl Fault {
    pub(super) const ALL: [Self; 5] =
        [Self::Killed, Self::Stopped, Self::Sick, Self::Slow, Self::CutOff];

    /// What happens, in words.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Killed => "killed",
            Self::Stopped => "stopped",
            Self::Sick => "answers 500",
            Self::Slow => "slow",
            Self::CutOff => "cut off",
        }
    }

    /// Makes `host` ill.
    pub(super) fn inflict(self, lab: &mut Lab, host: &Host) -> Result<(), LabError> {
        match self {
            Self::Killed => signal(lab, host, "KILL"),
            Self::Stopped => signal(lab, host, "STOP"),
            Self::Sick => sh(lab, host.name, &format!("touch {}", file(lab, host, servers::SICK))),
            Self::Slow => sh(lab, host.name, &format!("touch {}", file(lab, host, servers::SLOW))),
            Self::CutOff => sh(lab, SWITCH, &format!("ip link set {} down", host.name)),
        }
    }

    /// Makes `host` well again.
    pub(super) fn heal(self, lab: &mut Lab, host: &Host) -> Result<(), LabError> {
        match self {
            Self::Killed => {
                let dir = lab.dir().to_path_buf();
                let [web, _] = servers::prepare(host, &dir)?;
                let argv: Vec<&str> = web.argv.iter().map(String::as_str).collect();
                lab.spawn(host.name, &web.name, &argv).map(drop)
            }
            Self::Stopped => signal(lab, host, "CONT"),
            Self::Sick => sh(lab, host.name, &format!("rm {}", file(lab, host, servers::SICK))),
            Self::Slow => sh(lab, host.name, &format!("rm {}", file(lab, host, servers::SLOW))),
            Self::CutOff => sh(lab, SWITCH, &format!("ip link set {} up", host.name)),
        }
    }
}

/// The file beside the web server's configuration that makes it ill.
fn file(lab: &Lab, host: &Host, name: &str) -> String {
    lab.dir().join(host.name).join(name).display().to_string()
}

/// Sends a signal to the web server with its workers.
fn signal(lab: &Lab, host: &Host, name: &str) -> Result<(), LabError> {
    let server = format!("{}-nginx", host.name);
    let pid = lab.pid(&server).ok_or_else(|| LabError::Timeout {
        what: format!("{server} running"),
        seconds: 0,
        detail: String::new(),
    })?;
    sh(lab, host.name, &format!("kill -s {name} -- -{pid}"))
}

fn sh(lab: &Lab, host: &str, script: &str) -> Result<(), LabError> {
    lab.exec(host, &["sh", "-c", script])?.success().map(drop)
}
